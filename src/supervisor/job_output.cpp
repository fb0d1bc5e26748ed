#include "supervisor/job_output.h"

#include <utility>

#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

// Where the next tag begins in `text`, from `from` on; npos: nowhere.
size_t next_tag(std::string_view text, size_t from) {
  for (size_t place = text.find('[', from); place != text.npos; place = text.find('[', place + 1)) {
    if (parse_tagged(text.substr(place)).rank != kNoRank) return place;
  }
  return text.npos;
}

constexpr std::string_view kClearLine = "\x1b[K";  // written by a progress bar
constexpr size_t kLongestLine = 64 << 10;          // bytes; a longer one is cut

}  // namespace

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
  std::string_view shown = text;
  if (ended.rank == kNoRank) {
    if (MpirunWords::is_no_news(text)) return;
    mpirun_.add(text);  // also a part: ssh ends its lines with both
  } else if (end == '\n') {
    if (const auto line = dist::parse_supervisor_line(text); line && ended.is_error) {
      learn(*line, ended.rank);
      shown = line->before;
      if (shown.empty() || shown == kClearLine) return;
    }
    std::deque<std::string>& last = last_[ended.rank];
    last.emplace_back(shown);
    if (last.size() > kLastLines) last.pop_front();
  }
  write_(str(shown, end), ended.is_error);
}

void JobOutput::learn(const dist::SupervisorLine& line, int rank) {
  if (const auto* run = std::get_if<dist::HeldRun>(&line.record)) {
    if (rank == 0 && run_folder_.empty()) run_folder_ = run->folder;
    return;
  }
  const auto& failure = std::get<dist::FailureRecord>(line.record);
  if (failure.rank != rank || explains(failure)) return;
  std::deque<std::string>& last = last_[rank];
  if (!last.empty() && last.back() == failure.text) last.pop_back();
}

// False: it explains nothing. A rank that was stopped goes on when the job ends, and then misses
// the others in turn.
bool JobOutput::explains(const dist::FailureRecord& failure) {
  if (!failure_) {
    failure_ = failure;
    return true;
  }
  const dist::FailureRecord& first = *failure_;
  const bool answers = !first.is_own() && first.culprit == failure.rank && !failure.is_own();
  const bool names_culprit =
      !first.culprit && first.rank == failure.rank && failure.culprit && !failure.is_own();
  if (names_culprit || (!first.is_own() && failure.is_own())) failure_ = failure;
  return !answers;
}

// A rank that a signal has ended could say nothing; what others say then is that it is gone.
bool JobOutput::ended_silently() const {
  return mpirun_.ended() && (mpirun_.ended()->by_signal || !failure_);
}

std::optional<int> JobOutput::failed_rank() const {
  if (ended_silently()) return mpirun_.ended()->rank;
  return failure_ ? std::optional(failure_->culprit.value_or(failure_->rank)) : std::nullopt;
}

std::string JobOutput::cause() const {
  if (ended_silently()) return mpirun_.ended()->text;
  return failure_ ? failure_->text : mpirun_.cause();
}

std::vector<std::string> JobOutput::last_lines(int rank) const {
  const auto found = last_.find(rank);
  if (found == last_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace dtrain::supervisor
