#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

constexpr double kOneCycleStart = 1.0 / 25, kOneCycleRise = 0.3;  // torch's defaults

// Half a cosine from `from` at 0 to `to` at `length`, constant from there on. A length of 0 gives
// `to` everywhere.
double half_cosine(double from, double to, double at, double length) {
  const double share = length > 0 ? std::clamp(at / length, 0.0, 1.0) : 1.0;
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

double one_cycle(const config::Schedule& schedule, double base_lr, double step, double total) {
  const auto steps = static_cast<double>(schedule.warmup_steps.of(static_cast<int64_t>(total)));
  const double rise = steps > 0 ? steps : kOneCycleRise * total;
  const double peak = std::max(rise - 1, 0.0);
  if (step < peak) return half_cosine(base_lr * kOneCycleStart, base_lr, step, peak);
  if (step == peak) return base_lr;
  return half_cosine(base_lr, base_lr * schedule.final_lr_ratio, step - peak, total - 1 - peak);
}

}  // namespace

double learning_rate(const config::Schedule& schedule, double base_lr, int64_t step,
                     int64_t total_steps, int64_t steps_per_epoch) {
  DTRAIN_CHECK(step >= 0, "step ", step);
  if (schedule.name == config::ScheduleName::kOneCycle) {
    return one_cycle(schedule, base_lr, static_cast<double>(step),
                     static_cast<double>(total_steps));
  }
  const int64_t warmup = schedule.warmup_steps.of(total_steps);
  if (step < warmup) return base_lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.name == config::ScheduleName::kCosine) {
    return half_cosine(base_lr, base_lr * schedule.final_lr_ratio,
                       static_cast<double>(step - warmup),
                       static_cast<double>(total_steps - warmup));
  }
  if (schedule.name == config::ScheduleName::kStep) {
    const int64_t period = std::max<int64_t>(schedule.step_epochs * steps_per_epoch, 1);
    return base_lr * std::pow(schedule.gamma, static_cast<double>(step / period));
  }
  return base_lr;  // constant, plateau
}

std::string long_warm_up(const config::Schedule& schedule, int64_t total_steps) {
  const bool one_cycle = schedule.name == config::ScheduleName::kOneCycle;
  const int64_t steps = schedule.warmup_steps.of(total_steps), part = one_cycle ? 2 : 3;
  const config::WarmUp usual_warm_up = {.percent = one_cycle ? 100 * kOneCycleRise : 5};
  const int64_t usual = usual_warm_up.of(total_steps);
  if (part * steps <= total_steps || steps <= usual) return "";
  const std::string reached =
      steps <= total_steps ? ""
                           : str(", and reaches ",
                                 fixed(100 * learning_rate(schedule, 1, total_steps - 1,
                                                           total_steps, /*steps_per_epoch=*/1),
                                       0),
                                 " % of --lr");
  return str("the learning rate rises for ", steps, " steps (schedule.warmup_steps ",
             to_string(schedule.warmup_steps), "), and the run has ", total_steps, reached,
             ": use --schedule.warmup_steps ",
             one_cycle
                 ? str("0, with which one_cycle rises for ", fixed(100 * kOneCycleRise, 0), " %")
                 : to_string(usual_warm_up),
             ", which is ", usual, usual == 1 ? " step" : " steps");
}

std::string second_warm_up(const ScheduleOfRun& before, const ScheduleOfRun& now, int64_t done) {
  const int64_t was = before.schedule.warmup_steps.of(before.total_steps);
  const int64_t is = now.schedule.warmup_steps.of(now.total_steps);
  if (done < was || done >= is) return "";
  return str("the warm-up had ended at step ", was, " of ", before.total_steps,
             " (schedule.warmup_steps ", to_string(before.schedule.warmup_steps),
             "); now it takes ", is, " steps of ", now.total_steps,
             ": the learning rate is lower from step ", done, " on and rises until step ", is,
             ". Use --schedule.warmup_steps ", was, " to avoid it");
}

}  // namespace dtrain::train
