#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "core/strings.h"

namespace dtrain::cli {
namespace {
constexpr std::chrono::seconds kBetweenLines{5};
constexpr int64_t kNotYet = 20;  // samples before a rate means something
}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

void ProgressLine::show(const data::Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const bool end = progress.done >= progress.total;
  if (!terminal_ && !end && now - last_ < kBetweenLines) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string text = progress_text(what_, progress, seconds);
  std::fprintf(stderr, terminal_ ? "\r%s\033[K%s" : "%s%s", text.c_str(), end || !terminal_ ? "\n" : "");
}

std::string progress_text(const std::string& what, const data::Progress& progress, double seconds) {
  const auto [done, total, resumed] = progress;
  const double share = total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100;
  std::string text = str(what, " ", human_count(done), " of ", human_count(total), " (", fixed(share, 1), " %)");
  const int64_t fresh = done - resumed;
  if (fresh < kNotYet || seconds <= 0) return text;
  const double rate = static_cast<double>(fresh) / seconds;
  text += str(", ", fixed(rate, 1), " samples/s, ");
  return text + (done < total ? human_duration(static_cast<double>(total - done) / rate) + " left"
                              : "took " + human_duration(seconds));
}

}  // namespace dtrain::cli
