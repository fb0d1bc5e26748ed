#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "core/log.h"
#include "core/strings.h"
#include "monitoring/sinks.h"

namespace dtrain::monitoring {
namespace {

class Lines : public Sink {
 public:
  void record(const StepStats& s) override {
    epochs_ = s.epochs;
    if (s.logging) log::plain(step_line(s));
  }
  void record(const EvalStats& e) override { log::plain(eval_line(e, epochs_)); }

 private:
  int64_t epochs_ = 0;
};

// Redrawn on stderr, where log lines go too, at most ten times a second. Between logging steps it repeats the last
// known loss and rate. Whatever else is said by this sink first ends the bar's line.
class Bar : public Sink {
 public:
  ~Bar() override { end_line(); }

  void record(const StepStats& s) override {
    if (s.logging) {
      known_ = s;
      log::to_file(step_line(s));
    }
    const auto now = std::chrono::steady_clock::now();
    const bool last = s.total_steps > 0 && s.step >= s.total_steps;
    if (drawn_ && !last && now - drawn_at_ < std::chrono::milliseconds(100)) return;
    StepStats shown = s;
    if (!s.logging) {
      shown.loss = known_.loss;
      shown.samples_per_second = known_.samples_per_second;
      shown.eta_seconds = known_.eta_seconds;
    }
    epochs_ = s.epochs;
    std::fprintf(stderr, "\r%s\033[K", progress_bar(shown, columns() - 1).c_str());
    std::fflush(stderr);
    drawn_ = true;
    drawn_at_ = now;
  }
  void record(const EvalStats& e) override {
    end_line();
    log::plain(eval_line(e, epochs_));
  }
  void state(const std::string&) override { end_line(); }

 private:
  static int columns() {
    winsize size{};
    return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
  }
  void end_line() {
    if (!drawn_) return;
    std::fputc('\n', stderr);
    drawn_ = false;
  }

  StepStats known_;
  int64_t epochs_ = 0;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_;
};

}  // namespace

std::unique_ptr<Sink> make_console_sink(bool bar) {
  if (bar) return std::make_unique<Bar>();
  return std::make_unique<Lines>();
}

}  // namespace dtrain::monitoring
