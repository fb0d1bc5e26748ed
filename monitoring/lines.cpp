#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/strings.h"
#include "monitoring/sinks.h"

namespace dtrain::monitoring {
namespace {

// The words of the step line, in the order of a step; forward to optimizer always show, the rest when there was any.
struct Part {
  Phase phase;
  const char* name;
  bool always;
};
constexpr std::array<Part, kPhases> kParts = {{{Phase::kDataWait, "data", true},
                                               {Phase::kH2d, "h2d", false},
                                               {Phase::kForward, "fwd", true},
                                               {Phase::kBackward, "bwd", true},
                                               {Phase::kAllReduceWait, "comm", true},
                                               {Phase::kOptimizer, "opt", true},
                                               {Phase::kCheckpoint, "save", false},
                                               {Phase::kEval, "eval", false}}};

// "249.8 = data 1.2 + fwd 80.1 + ...", milliseconds. The total is the sum of what follows it: means over the same
// steps.
std::string time_split(const StepStats& s) {
  double total = 0;
  for (const double seconds : s.phase_seconds) total += seconds;
  if (total <= 0) return fixed(s.step_seconds * 1e3, 1);
  std::string text = fixed(total * 1e3, 1) + " =";
  bool first = true;
  for (const Part& part : kParts) {
    const double ms = s.phase_seconds[static_cast<size_t>(part.phase)] * 1e3;
    if (!part.always && ms <= 0) continue;
    text += str(first ? " " : " + ", part.name, " ", fixed(ms, 1));
    if (part.phase == Phase::kAllReduceWait) text += " (exposed)";
    first = false;
  }
  return text;
}

std::string memory(const StepStats& s) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const std::string used = fixed(s.memory_used / kGiB, 1);
  return s.memory_total > 0 ? str(used, "/", fixed(s.memory_total / kGiB, 1), " GiB") : used + " GiB";
}

// Significant ones: 0.52, 0.00213, 12.3, 4.32e+03. The norm of a gradient may have any size.
std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string of(int64_t value, int64_t total) { return total > 0 ? str(value, "/", total) : str(value); }

std::string value_of(const std::string& name, double value) {
  const bool angle = name.rfind("mae", 0) == 0;  // degrees: two digits are more than the data hold
  return name + " " + fixed(value, angle ? 2 : 4);
}

}  // namespace

std::string step_line(const StepStats& s) {
  std::vector<std::string> parts = {"epoch " + of(s.epoch + 1, s.epochs), "step " + of(s.step, s.total_steps),
                                    "loss " + fixed(s.loss, 4), "lr " + scientific(s.learning_rate, 2)};
  if (!std::isnan(s.grad_norm)) parts.push_back("gnorm " + three_digits(s.grad_norm));
  if (!std::isnan(s.samples_per_second)) parts.push_back(fixed(s.samples_per_second, 1) + " samples/s");
  parts.push_back("step " + time_split(s));
  if (s.memory_used > 0) parts.push_back("mem " + memory(s));
  if (!std::isnan(s.loss_scale)) parts.push_back("scale " + fixed(s.loss_scale, 0));
  if (s.skipped_total > 0) parts.push_back("skipped " + str(s.skipped_total));
  if (s.bad_samples > 0) parts.push_back("bad samples " + str(s.bad_samples));
  if (!std::isnan(s.eta_seconds)) parts.push_back("eta " + human_duration(s.eta_seconds));
  return join(parts, " | ");
}

std::string eval_line(const EvalStats& e, int64_t epochs) {
  std::vector<std::string> parts = {e.split + " epoch " + of(e.epoch + 1, epochs)};
  for (const auto& [name, value] : e.metrics) parts.push_back(value_of(name, value));
  parts.push_back(str(e.samples, " samples in ", fixed(e.seconds, 1), " s"));
  return join(parts, " | ");
}

std::string progress_bar(const StepStats& s, int columns) {
  const std::string head = "epoch " + of(s.epoch + 1, s.epochs) + " ";
  std::string tail = " " + of(s.step, s.total_steps);
  if (!std::isnan(s.loss)) tail += "  loss " + fixed(s.loss, 4);
  if (!std::isnan(s.samples_per_second)) tail += "  " + fixed(s.samples_per_second, 1) + " samples/s";
  if (!std::isnan(s.eta_seconds)) tail += "  eta " + human_duration(s.eta_seconds);
  const int room = std::min(columns - static_cast<int>(head.size() + tail.size()) - 2, 40);
  std::string line = head;
  if (room >= 5 && s.total_steps > 0) {
    const double share = std::clamp(static_cast<double>(s.step) / static_cast<double>(s.total_steps), 0.0, 1.0);
    const auto filled = static_cast<size_t>(share * room);
    line += "[" + std::string(filled, '#') + std::string(static_cast<size_t>(room) - filled, '-') + "]";
  }
  line += tail;
  return line.substr(0, static_cast<size_t>(std::max(columns, 1)));
}

}  // namespace dtrain::monitoring
