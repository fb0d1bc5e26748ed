#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "core/strings.h"
#include "job/signals.h"

namespace dtrain::cli {
namespace {
constexpr std::chrono::seconds kBetweenLines{5};
constexpr int64_t kNotYet = 20;  // samples before a rate is meaningful

struct Interrupted {};
}  // namespace

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

void ProgressLine::show(const Progress& progress) {
  const auto now = Clock::now();
  if (stage_ != progress.stage) {
    stage_ = progress.stage;
    start_ = last_ = now;
  }
  const bool end = progress.done >= progress.total;
  if (!terminal_ && !end && now - last_ < kBetweenLines) return;
  last_ = now;
  const std::string text = progress_text(progress, std::chrono::duration<double>(now - start_).count());
  open_ = terminal_ && !end;
  std::fprintf(stderr, terminal_ ? "\r%s\033[K%s" : "%s%s", text.c_str(), open_ ? "" : "\n");
}

std::string progress_text(const Progress& progress, double seconds) {
  const auto [stage, done, total, resumed] = progress;
  const double share = total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100;
  std::string text = str(stage, " ", human_count(done), " of ", human_count(total), " (", fixed(share, 1), " %)");
  const int64_t fresh = done - resumed;
  if (fresh < kNotYet || seconds <= 0) return text;
  const double rate = static_cast<double>(fresh) / seconds;
  text += str(", ", fixed(rate, 1), " samples/s, ");
  return text + (done < total ? human_duration(static_cast<double>(total - done) / rate) + " left"
                              : "took " + human_duration(seconds));
}

bool run_interruptible(const std::function<void(const ReportProgress&)>& work) {
  const std::atomic<bool>& stop = job::install_stop_signals();
  ProgressLine line;
  try {
    work([&](const Progress& progress) {
      line.show(progress);
      if (stop) throw Interrupted();
    });
  } catch (const Interrupted&) {
    return false;
  }
  return true;
}

}  // namespace dtrain::cli
