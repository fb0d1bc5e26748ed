#include "core/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "core/log.h"
#include "text/strings.h"

namespace dtrain {
namespace {

constexpr std::chrono::seconds kBetweenLines{5};
constexpr std::chrono::milliseconds kBetweenBars{100};
constexpr int64_t kNotYet = 20;  // samples before a rate is meaningful
constexpr size_t kLongestBar = 40, kShortestBar = 5;

double seconds_of(int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

std::string amount(const Progress& progress, int64_t value) {
  if (progress.unit == Progress::Unit::kMilliseconds) return human_duration(seconds_of(value));
  return progress.unit == Progress::Unit::kBytes ? human_bytes(static_cast<double>(value))
                                                 : human_count(value);
}

double share_of(const Progress& progress) {
  return progress.total > 0
             ? 100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total)
             : 100;
}

// Per second; 0: not known yet.
double rate_of(const Progress& progress, double seconds) {
  // A rate over all stages, since one stage may be a single trial
  if (progress.unit == Progress::Unit::kMilliseconds) {
    return progress.done > 0 ? static_cast<double>(progress.trials) / seconds_of(progress.done) : 0;
  }
  const int64_t fresh = progress.done - progress.resumed;
  return fresh < kNotYet || seconds <= 0 ? 0 : static_cast<double>(fresh) / seconds;
}

std::string rate_text(const Progress& progress, double rate) {
  if (progress.unit == Progress::Unit::kMilliseconds) return fixed(60 * rate, 1) + " trials/min";
  return progress.unit == Progress::Unit::kBytes ? human_bytes(rate) + "/s"
                                                 : fixed(rate, 1) + " samples/s";
}

// "3.4s", "at most 3.4s"; "": not known yet.
std::string time_left(const Progress& progress, double rate) {
  const int64_t left = progress.total - progress.done;
  if (progress.unit == Progress::Unit::kMilliseconds)
    return "at most " + human_duration(seconds_of(left));
  return rate > 0 ? human_duration(static_cast<double>(left) / rate) : "";
}

double time_taken(const Progress& progress, double seconds) {
  return progress.unit == Progress::Unit::kMilliseconds ? seconds_of(progress.done) : seconds;
}

}  // namespace

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

ProgressLine::ProgressLine(Last last_line, bool terminal, const Clock& clock)
    : last_line_(last_line), terminal_(terminal), clock_(clock), reported_(clock.now()) {}

ProgressLine::~ProgressLine() {
  if (terminal_) log::end_status();
}

void ProgressLine::begin_stage(const Progress& progress, Clock::Steady::time_point now) {
  if (terminal_) log::end_status();
  stage_ = progress.stage;
  start_ = reported_;  // the first report of a stage comes after a part of it
  shown_at_ = now;
  shown_ = false;
}

void ProgressLine::show(const Progress& progress) {
  const auto now = clock_.now();
  if (stage_ != progress.stage || progress.done < done_) begin_stage(progress, now);
  done_ = progress.done;
  reported_ = now;
  const bool end = progress.done >= progress.total;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (terminal_) {
    if (shown_ && !end && now - shown_at_ < kBetweenBars) return;
    log::status(progress_bar(progress, seconds, terminal_columns() - 1));
    if (end) log::end_status();
  } else {
    if (!end && now - shown_at_ < kBetweenLines) return;
    if (end && !shown_ && last_line_ == Last::kOfLongWork) return;
    log::to_console(progress_text(progress, seconds));
  }
  shown_ = true;
  shown_at_ = now;
}

std::string progress_text(const Progress& progress, double seconds) {
  std::string text =
      str(progress.stage, " ", amount(progress, progress.done), " of ",
          amount(progress, progress.total), " (", fixed(share_of(progress), 1), " %)");
  const double rate = rate_of(progress, seconds);
  if (rate > 0) text += ", " + rate_text(progress, rate);
  if (progress.done < progress.total) {
    const std::string left = time_left(progress, rate);
    return left.empty() ? text : str(text, ", ", left, " left");
  }
  return rate > 0 ? str(text, ", took ", human_duration(time_taken(progress, seconds))) : text;
}

std::string progress_bar(const Progress& progress, double seconds, int columns) {
  std::string tail = str(amount(progress, progress.done), "/", amount(progress, progress.total),
                         "  ", fixed(share_of(progress), 0), " %");
  const double rate = rate_of(progress, seconds);
  if (rate > 0) tail += "  " + rate_text(progress, rate);
  if (progress.done < progress.total) {
    const std::string left = time_left(progress, rate);
    if (!left.empty()) tail += "  eta " + left;
  } else if (rate > 0) {
    tail += "  took " + human_duration(time_taken(progress, seconds));
  }
  return bar_line(progress.stage, progress.done, progress.total, tail, columns);
}

std::string bar_line(const std::string& head, int64_t done, int64_t total, const std::string& tail,
                     int columns) {
  const size_t width = static_cast<size_t>(std::max(columns, 1)),
               used = head.size() + tail.size() + 4;
  const size_t room = used < width ? std::min(width - used, kLongestBar) : 0;
  std::string line = head + " ";
  if (room >= kShortestBar && total > 0) {
    const double share =
        static_cast<double>(std::clamp<int64_t>(done, 0, total)) / static_cast<double>(total);
    const auto filled = static_cast<size_t>(share * static_cast<double>(room));
    line += "[" + std::string(filled, '#') + std::string(room - filled, '-') + "] ";
  }
  return (line + tail).substr(0, width);
}

}  // namespace dtrain
