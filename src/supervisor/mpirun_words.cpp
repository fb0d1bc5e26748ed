#include "supervisor/mpirun_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "supervisor/hosts.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

constexpr std::string_view kNoMpirun = "setpriv: failed to execute mpirun";

// What is said where the same command would fail in the same way again.
constexpr std::array<std::string_view, 6> kRefusals = {
    "The user-provided time limit for job execution has been reached",
    "mpirun: Error: ",
    kNoMpirun,
    "There are not enough slots available",
    "it could not find an executable",
    "mpirun has detected an attempt to run as root"};

// Its remote shell has spoken before.
constexpr std::array<std::string_view, 2> kNoDaemon = {
    "ORTE was unable to reliably start one or more daemons",
    "An ORTE daemon has unexpectedly failed after launch"};

// What follows `words`; none if they are not there.
std::optional<std::string_view> after(std::string_view text, std::string_view words) {
  const size_t place = text.find(words);
  if (place == std::string_view::npos) return std::nullopt;
  return text.substr(place + words.size());
}

bool has_one_of(std::string_view text, std::span<const std::string_view> words) {
  return std::ranges::any_of(words,
                             [text](std::string_view one) { return text.find(one) != text.npos; });
}

std::string_view without_dot(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  return text;
}

// The number at the beginning of `text`, which loses it.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

TaggedLine parse_tagged(std::string_view line) {
  std::string_view rest = line;
  if (!take_prefix(rest, "[") || !take_number(rest) || !take_prefix(rest, ","))
    return {.text = line};
  const std::optional<int> rank = take_number(rest);
  if (!rank || !take_prefix(rest, "]<")) return {.text = line};
  const bool is_error = rest.starts_with("stderr>");
  if (!take_prefix(rest, is_error ? "stderr>:" : "stdout>:")) return {.text = line};
  return {.rank = *rank, .is_error = is_error, .text = rest};
}

bool MpirunWords::is_no_news(std::string_view line) {
  return line.starts_with("mpirun: Forwarding signal");
}

void MpirunWords::add(std::string_view line) {
  refused_ = refused_ || has_one_of(line, kRefusals);
  lacks_host_ = lacks_host_ || has_one_of(line, kNoDaemon);
  if (!first_words_end_) take_first_words(line);
  if (!ended_) take_end(line);
}

// "mpirun noticed that process rank 1 with PID 0 on node h exited on signal 9 (Killed)."
// "  Process name: [[40513,1],1]" and then "  Exit code:    76"
void MpirunWords::take_end(std::string_view line) {
  if (auto rest = after(line, "noticed that process rank ")) {
    const std::optional<int> rank = take_number(*rest);
    const auto node = after(*rest, " on node "), how = after(*rest, " exited on signal ");
    if (rank && node && how) {
      ended_ = {*rank,
                str("rank ", *rank, " on ", node->substr(0, node->find(' ')), ": ended by signal ",
                    without_dot(trimmed(*how))),
                /*by_signal=*/true};
    }
  } else if (const auto daemon = after(line, "Remote daemon: ")) {
    lost_host_ = after(*daemon, " on node ").value_or("");
  } else if (auto name = after(line, "Process name: [[")) {
    const auto numbers = after(*name, "],");
    if (!numbers) return;
    std::string_view number = *numbers;
    exited_rank_ = take_number(number).value_or(kNoRank);
  } else if (auto code = after(line, "Exit code:"); code && exited_rank_ != kNoRank) {
    ended_ = {exited_rank_, str("rank ", exited_rank_, ": exit code ", trimmed(*code)),
              /*by_signal=*/false};
  }
}

// The first sentence or paragraph, in one line.
void MpirunWords::take_first_words(std::string_view line) {
  constexpr size_t kMost = 300;
  const std::string_view said = trimmed(line);
  if (said.starts_with("Warning: ")) return;  // ssh warns about a key
  if (said.find_first_not_of("-* ") == said.npos) {
    first_words_end_ = !first_words_.empty();
    return;
  }
  if (!first_words_.empty()) first_words_ += ' ';
  first_words_ += said;
  const size_t sentence = first_words_.find(". ");
  if (sentence != std::string::npos) first_words_.resize(sentence + 1);
  first_words_end_ = first_words_.ends_with('.') || first_words_.size() >= kMost;
}

std::string MpirunWords::cause() const {
  if (first_words_.starts_with(kNoMpirun) && first_words_.ends_with("No such file or directory")) {
    return first_words_ +
           ". Install Open MPI (Debian: openmpi-bin), or add the folder of its mpirun to PATH";
  }
  if (lost_host_.empty()) return first_words_;
  return str("mpirun lost its daemon on host ", lost_host_,
             ": the host or its network is down, or something blocks the connection: ",
             where_to_look(lost_host_));
}

}  // namespace dtrain::supervisor
