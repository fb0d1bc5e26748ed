#include "monitoring/console_sink.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "core/log.h"
#include "core/progress_line.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using measure::Phase;
using measure::Quantity;

// The phases in the order of a step.
struct PhaseWord {
  Phase phase;
  const char* word;
  bool always;  // shown even if it took no time
};
constexpr std::array<PhaseWord, measure::kPhases> kPhaseWords = {
    {{Phase::kDataWait, "data", true},
     {Phase::kH2d, "h2d", false},
     {Phase::kForward, "fwd", true},
     {Phase::kBackward, "bwd", true},
     {Phase::kAllReduceWait, "comm", true},
     {Phase::kOptimizer, "opt", true},
     {Phase::kCheckpoint, "save", false},
     {Phase::kEval, "eval", false}}};

// "250.2 = data 1.2 + fwd 80.1 + ... + other 0.4", in milliseconds: the wall time and its parts.
std::string time_split(const StepStats& s) {
  std::string text = fixed(s.step_seconds * 1e3, 1) + " =";
  bool first = true;
  for (const PhaseWord& part : kPhaseWords) {
    const double ms = s.phase_seconds[static_cast<size_t>(part.phase)] * 1e3;
    if (!part.always && ms <= 0) continue;
    text += str(first ? " " : " + ", part.word, " ", fixed(ms, 1));
    if (part.phase == Phase::kAllReduceWait) text += " (exposed)";
    first = false;
  }
  return text + " + other " + fixed(std::max(0.0, s.other_seconds) * 1e3, 1);
}

std::string memory(const StepStats& s) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const std::string used = fixed(s.values[Quantity::kMemory] / kGiB, 1);
  const double all = s.values[Quantity::kDeviceMemory];
  return all > 0 ? str(used, "/", fixed(all / kGiB, 1), " GiB") : used + " GiB";
}

// Three significant digits, since the norm of a gradient may have any size: 0.52, 0.00213,
// 12.3, 4.32e+03.
std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string of(int64_t value, int64_t total) {
  return total > 0 ? str(value, "/", total) : str(value);
}

std::string value_of(const std::string& name, double value,
                     const std::map<std::string, std::string>& units) {
  const auto unit = units.find(name);
  // More decimals of an error in the unit of the targets, such as degrees, would be noise.
  const bool error =
      unit != units.end() && (unit->second == "degrees" || unit->second == "absolute error");
  return name + " " + fixed(value, error ? 2 : 4);
}

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

// Between logging steps it repeats the last known loss and rate. Other lines are printed above it.
class Bar : public Sink {
 public:
  explicit Bar(const Clock& clock) : clock_(clock) {}
  ~Bar() override { end_line(); }

  void record(const StepStats& s) override {
    if (s.logging) {
      known_ = s;
      log::to_file(step_line(s));
    }
    const bool last = s.total_steps > 0 && s.step >= s.total_steps;
    if (!last && !is_due()) return;
    StepStats shown = s;
    if (!s.logging) {
      shown.loss = known_.loss;
      shown.samples_per_second = known_.samples_per_second;
      shown.eta_seconds = known_.eta_seconds;
    }
    epochs_ = s.epochs;
    draw(progress_bar(shown, terminal_columns() - 1));
    if (last) end_line();
  }
  void record(const EvalStats& e) override {
    remove_line();
    log::plain(eval_line(e, epochs_));
  }
  void progress(const Progress& p) override {
    if (p.done == 0) began_ = clock_.now();
    if (!is_due()) return;
    draw(dtrain::progress_bar(p, seconds_between(began_, clock_.now()), terminal_columns() - 1));
  }
  void state(LiveState state) override {
    if (state == LiveState::kFinished || state == LiveState::kFailed) remove_line();
  }

 private:
  bool is_due() const {
    return !drawn_at_ || clock_.now() - *drawn_at_ >= std::chrono::milliseconds(100);
  }
  void draw(const std::string& line) {
    log::status(line);
    drawn_at_ = clock_.now();
  }
  void end_line() {
    log::end_status();
    drawn_at_.reset();
  }
  void remove_line() {
    log::status("");
    drawn_at_.reset();
  }

  const Clock& clock_;
  StepStats known_;
  int64_t epochs_ = 0;
  Clock::Steady::time_point began_;                    // the evaluation under way
  std::optional<Clock::Steady::time_point> drawn_at_;  // nullopt: there is no bar
};

}  // namespace

std::string step_line(const StepStats& s) {
  std::vector<std::string> parts = {"epoch " + of(s.epoch + 1, s.epochs),
                                    "step " + of(s.step, s.total_steps), "loss " + fixed(s.loss, 4),
                                    "lr " + scientific(s.learning_rate, 2)};
  if (!std::isnan(s.grad_norm)) parts.push_back("gnorm " + three_digits(s.grad_norm));
  if (!std::isnan(s.samples_per_second))
    parts.push_back(fixed(s.samples_per_second, 1) + " samples/s");
  parts.push_back("step " + time_split(s));
  const double scale = s.values[Quantity::kLossScale], skipped = s.values[Quantity::kSkippedSteps];
  if (s.values[Quantity::kMemory] > 0) parts.push_back("mem " + memory(s));
  if (!std::isnan(scale)) parts.push_back("scale " + fixed(scale, 0));
  if (skipped > 0) parts.push_back("skipped " + fixed(skipped, 0));
  if (s.bad_samples > 0) parts.push_back("bad samples " + str(s.bad_samples));
  if (!std::isnan(s.eta_seconds)) parts.push_back("eta " + human_duration(s.eta_seconds));
  return join(parts, " | ");
}

std::string eval_line(const EvalStats& e, int64_t epochs) {
  std::vector<std::string> parts = {e.split + " epoch " + of(e.epoch + 1, epochs)};
  for (const auto& [name, value] : e.metrics) parts.push_back(value_of(name, value, e.units));
  parts.push_back(str(e.samples, " samples in ", fixed(e.seconds, 1), " s"));
  return join(parts, " | ");
}

std::string progress_bar(const StepStats& s, int columns) {
  const std::string head = "epoch " + of(s.epoch + 1, s.epochs);
  std::string tail = of(s.step, s.total_steps);
  if (!std::isnan(s.loss)) tail += "  loss " + fixed(s.loss, 4);
  if (!std::isnan(s.samples_per_second))
    tail += "  " + fixed(s.samples_per_second, 1) + " samples/s";
  if (!std::isnan(s.eta_seconds)) tail += "  eta " + human_duration(s.eta_seconds);
  return bar_line(head, s.step, s.total_steps, tail, columns);
}

std::unique_ptr<Sink> make_console_sink(bool bar, const Clock& clock) {
  if (bar) return std::make_unique<Bar>(clock);
  return std::make_unique<Lines>();
}

}  // namespace dtrain::monitoring
