#include "supervisor/job_output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "core/strings.h"
#include "supervisor/hosts.h"

namespace dtrain::supervisor {
namespace {

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

// What follows `words`; none if they are not there.
std::optional<std::string_view> after(std::string_view text, std::string_view words) {
  const size_t place = text.find(words);
  if (place == std::string_view::npos) return std::nullopt;
  return text.substr(place + words.size());
}

std::string_view without_dot(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  return text;
}

// "error: TEXT" of a process alone, "[rank 1] error: TEXT" or "[rank 1 on HOST] error: TEXT" of one
// of several.
bool is_error_message(std::string_view text) {
  return text.starts_with("error: ") || (text.starts_with("[rank ") && after(text, "] error: "));
}

bool has_one_of(std::string_view text, std::span<const std::string_view> words) {
  return std::ranges::any_of(words,
                             [text](std::string_view one) { return text.find(one) != text.npos; });
}

// A rank that has died says nothing; another one says it: "... rank 1 (process 12) has died".
std::optional<int> blamed_rank(std::string_view text) {
  constexpr std::array<std::string_view, 4> kBlames = {
      " has died", " sent no heartbeat", " has made no progress", " has left while others wait"};
  size_t end = text.npos;
  for (const std::string_view words : kBlames) end = std::min(end, text.find(words));
  if (end == text.npos) return std::nullopt;
  // The last rank before them: "rank 0: rank 2 has died" is what rank 0 has told the others.
  constexpr std::string_view kRank = ": rank ";
  const size_t last = text.substr(0, end).rfind(kRank);
  std::optional<std::string_view> rest =
      last == text.npos ? std::nullopt : std::optional(text.substr(last + kRank.size()));
  if (!rest) rest = after(text, ": ranks ");  // several of one host: the first
  return rest ? take_number(*rest) : std::nullopt;
}

// The words of a rank that cannot reach the others, for whatever reason.
bool is_of_communication(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"communicator", " failed: MPI_",
                                                      "NCCL_DEBUG=WARN prints more"};
  return has_one_of(text, kWords);
}

// Where the next tag begins in `text`, from `from` on; npos: nowhere.
size_t next_tag(std::string_view text, size_t from) {
  for (size_t place = text.find('[', from); place != text.npos; place = text.find('[', place + 1)) {
    if (parse_tagged(text.substr(place)).rank != kNoRank) return place;
  }
  return text.npos;
}

constexpr std::string_view kNamesRunFolder = "  run folder ";  // in the banner of rank 0
constexpr std::string_view kClearLine = "\x1b[K";              // of a progress bar
constexpr size_t kLongestLine = 64 << 10;                      // bytes; a longer one is cut

constexpr std::string_view kNoMpirun = "setpriv: failed to execute mpirun";

// What mpirun says where the same command would fail in the same way again.
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

// mpirun reads from a rank up to 4096 bytes at a time and puts a tag before each of them and at the
// beginning of each line, so that a line may have tags inside, and text of another rank behind a
// part of a line.
void JobOutput::add(std::string_view bytes, bool is_error) {
  Received& stream = received_[is_error ? 1 : 0];
  stream.text.append(bytes);
  size_t begin = 0;
  for (size_t end = stream.text.find_first_of("\r\n"); end != std::string::npos;
       end = stream.text.find_first_of("\r\n", begin)) {
    take(std::string_view(stream.text).substr(begin, end - begin), is_error, stream.text[end]);
    begin = end + 1;
  }
  stream.text.erase(0, begin);
  if (stream.text.size() > kLongestLine) take(std::exchange(stream.text, {}), is_error, '\n');
}

void JobOutput::finish() {
  for (const bool is_error : {false, true}) {
    std::string& text = received_[is_error ? 1 : 0].text;
    if (!text.empty()) take(std::exchange(text, {}), is_error, '\n');
  }
}

// `part` may be of several ranks; the last of them ends its line (by a line feed), or goes back to
// its beginning.
void JobOutput::take(std::string_view part, bool is_error, char end) {
  Source& source = received_[is_error ? 1 : 0].source;
  const auto append = [&](std::string_view text) {
    const TaggedLine tagged = parse_tagged(text);
    if (tagged.rank != kNoRank) source = {tagged.rank, is_error || tagged.is_error};
    partial_[source] += tagged.text;
  };
  for (size_t next = next_tag(part, 1); next != part.npos; next = next_tag(part, 1)) {
    append(part.substr(0, next));
    part.remove_prefix(next);
  }
  append(part);
  const Source ended = source;
  if (end == '\n') source = {kNoRank, is_error};  // what comes without a tag after it is mpirun's
  const std::string text = std::exchange(partial_[ended], {});
  if (ended.rank == kNoRank && text.starts_with("mpirun: Forwarding signal"))
    return;  // it is no news
  write_(str(text, end), ended.is_error);
  if (end == '\n' || ended.rank == kNoRank) learn(text, ended);  // ssh ends its lines with both
}

void JobOutput::learn(std::string_view line, const Source& source) {
  if (source.rank == kNoRank) return listen_to_mpirun(line);
  std::string_view text = line;
  take_prefix(text, kClearLine);
  std::string_view named = text;
  if (source.rank == 0 && run_folder_.empty() && take_prefix(named, kNamesRunFolder))
    run_folder_ = named;
  if (source.is_error && is_error_message(text) && !take_error(text, source.rank)) return;
  std::deque<std::string>& last = last_[source.rank];
  last.emplace_back(line);
  if (last.size() > kLastLines) last.pop_front();
}

// False: it explains nothing. A rank that was stopped goes on when the job ends, and then misses
// the others in turn.
bool JobOutput::take_error(std::string_view text, int rank) {
  const std::optional<int> named = blamed_rank(text);
  Error error{named.value_or(rank), Error::kOwn, std::string(text)};
  if (named && *named != rank) {
    error.kind = Error::kOfOther;
  } else if (is_of_communication(text)) {
    error.kind = Error::kNoOthers;
  }
  if (!first_error_) {
    first_error_ = std::move(error);
    return true;
  }
  const Error& first = *first_error_;
  const bool answers =
      first.kind == Error::kOfOther && first.rank == rank && error.kind != Error::kOwn;
  const bool names_cause =
      first.kind == Error::kNoOthers && first.rank == rank && error.kind == Error::kOfOther;
  if (names_cause || (first.kind != Error::kOwn && error.kind == Error::kOwn))
    first_error_ = std::move(error);
  return !answers;
}

// "mpirun noticed that process rank 1 with PID 0 on node h exited on signal 9 (Killed)."
// "  Process name: [[40513,1],1]" and then "  Exit code:    76"
void JobOutput::listen_to_mpirun(std::string_view line) {
  refused_ = refused_ || has_one_of(line, kRefusals);
  lacks_host_ = lacks_host_ || has_one_of(line, kNoDaemon);
  if (!first_words_end_) take_first_words(line);
  if (ended_) return;
  if (auto rest = after(line, "noticed that process rank ")) {
    const std::optional<int> rank = take_number(*rest);
    const auto node = after(*rest, " on node "), how = after(*rest, " exited on signal ");
    if (rank && node && how) {
      ended_ = {*rank, str(" on ", node->substr(0, node->find(' '))),
                str("ended by signal ", without_dot(trimmed(*how))), /*by_signal=*/true};
    }
  } else if (const auto daemon = after(line, "Remote daemon: ")) {
    lost_host_ = after(*daemon, " on node ").value_or("");
  } else if (auto name = after(line, "Process name: [[")) {
    const auto numbers = after(*name, "],");
    if (!numbers) return;
    std::string_view number = *numbers;
    exited_rank_ = take_number(number).value_or(kNoRank);
  } else if (auto code = after(line, "Exit code:"); code && exited_rank_ != kNoRank) {
    ended_ = {exited_rank_, "", str("exit code ", trimmed(*code)), /*by_signal=*/false};
  }
}

// The first sentence or paragraph, in one line.
void JobOutput::take_first_words(std::string_view line) {
  constexpr size_t kMost = 300;
  const std::string_view said = trimmed(line);
  if (said.starts_with("Warning: ")) return;  // of ssh, about a key
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

// A rank that a signal has ended could say nothing; what others say then is that it is gone.
bool JobOutput::ended_silently() const { return ended_ && (ended_->by_signal || !first_error_); }

std::optional<int> JobOutput::failed_rank() const {
  if (ended_silently()) return ended_->rank;
  return first_error_ ? std::optional(first_error_->rank) : std::nullopt;
}

std::string JobOutput::cause() const {
  if (ended_silently()) return str("rank ", ended_->rank, ended_->where, ": ", ended_->how);
  if (first_error_) return first_error_->text;
  if (first_words_.starts_with(kNoMpirun) && first_words_.ends_with("No such file or directory")) {
    return first_words_ +
           ". Install Open MPI (Debian: openmpi-bin), or add the folder of its mpirun to PATH";
  }
  if (lost_host_.empty()) return first_words_;
  return str("mpirun lost its daemon on host ", lost_host_,
             ": the host or its network is down, or something blocks the connection: ",
             where_to_look(lost_host_));
}

std::vector<std::string> JobOutput::last_lines(int rank) const {
  const auto found = last_.find(rank);
  if (found == last_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace dtrain::supervisor
