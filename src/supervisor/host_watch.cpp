#include "supervisor/host_watch.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

using Time = Clock::Steady::time_point;

// A login shell may be any: this one line is read by all of them, and runs in sh.
constexpr const char* kBeat = "exec sh -c 'while echo; do sleep 1; done'";
constexpr size_t kMostErrors = 4096;  // bytes of what a remote shell says

}  // namespace

struct HostWatch::Watched {
  Host host;
  bool is_here = false, lost = false, lost_when_asked = false;
  std::unique_ptr<ChildProcess> shell;
  Time login{};              // when it was last tried
  Time answered{};           // the last line, or the beginning of the watch
  std::string errors{};      // standard error of this shell since its last line
  std::string last_words{};  // `errors` of the last shell that ended, or why none could start
};

HostWatch::HostWatch(std::vector<Host> hosts, std::vector<std::string> shell,
                     std::vector<std::string> environment, double timeout_seconds,
                     const Clock& clock)
    : shell_(std::move(shell)),
      environment_(std::move(environment)),
      timeout_(timeout_seconds),
      clock_(clock) {
  asked_ = clock_.now();
  for (Host& host : hosts) {
    auto one = std::make_unique<Watched>();
    one->is_here = is_this_host(host.name);
    one->host = std::move(host);
    one->answered = asked_;
    watched_.push_back(std::move(one));
  }
}

HostWatch::~HostWatch() = default;

std::vector<HostWatch::Change> HostWatch::poll() {
  std::vector<Change> changes;
  for (const std::unique_ptr<Watched>& one : watched_) {
    if (one->is_here) continue;
    const Time before = one->answered;
    look(*one);
    if (one->lost && one->answered > before) {
      one->lost = false;
      changes.push_back({one->host.name, true, ""});
    } else if (!one->lost && seconds_between(one->answered, clock_.now()) >= timeout_) {
      one->lost = true;
      const std::string said = last_line(one->errors.empty() ? one->last_words : one->errors);
      changes.push_back(
          {one->host.name, false, said.empty() ? str("no answer for ", timeout_, " s") : said});
      one->shell.reset();  // it may never end by itself
    }
  }
  return changes;
}

// Takes the lines of a host, and logs in again where the remote shell has ended.
void HostWatch::look(Watched& one) {
  // A login that hangs, or a connection that is dead, may not end for hours.
  if (one.lost && one.shell && seconds_between(one.login, clock_.now()) >= timeout_)
    one.shell.reset();
  if (!one.shell) {
    if (one.login != Time{} && seconds_between(one.login, clock_.now()) < kBetweenLogins) return;
    one.login = clock_.now();
    // It does not outlive the supervisor
    std::vector<std::string> command = {"setpriv", "--pdeathsig", "TERM"};
    command.insert(command.end(), shell_.begin(), shell_.end());
    command.insert(command.end(), {one.host.name, kBeat});
    try {
      one.shell = std::make_unique<ChildProcess>(command, environment_);
    } catch (const Error& error) {
      one.last_words = error.what();
      return;
    }
  }
  const bool ended = one.shell->look(0, [&](std::string_view bytes, bool is_error) {
    if (!is_error) {
      one.answered = clock_.now();
      one.errors.clear();
      one.last_words.clear();
    } else if (one.errors.size() < kMostErrors) {
      one.errors += bytes;
    }
  });
  if (!ended) return;
  one.shell.reset();
  if (!one.errors.empty()) one.last_words = std::exchange(one.errors, {});
}

void HostWatch::ask() {
  asked_ = clock_.now();
  for (const std::unique_ptr<Watched>& one : watched_) one->lost_when_asked = one->lost;
}

bool HostWatch::all_known() const {
  const bool second_look_is_over = seconds_between(asked_, clock_.now()) >= kSecondLook;
  return std::ranges::all_of(watched_, [&](const std::unique_ptr<Watched>& one) {
    if (one->is_here || one->answered > asked_) return true;
    return one->lost && (!one->lost_when_asked || second_look_is_over);
  });
}

std::vector<Host> HostWatch::answering() const {
  std::vector<Host> hosts;
  for (const std::unique_ptr<Watched>& one : watched_) {
    if (!one->lost) hosts.push_back(one->host);
  }
  return hosts;
}

}  // namespace dtrain::supervisor
