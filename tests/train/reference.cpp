// Prints what dtrain's loss scaler and schedules do, for the Python scripts beside it to compare
// with torch's.
//   train_reference scaler INIT GROWTH BACKOFF INTERVAL   < one 0 or 1 (gradient not finite) a step
//   train_reference plateau min|max PATIENCE GAMMA THRESHOLD   < one metric per evaluation
//   train_reference schedule NAME LR WARMUP FINAL_RATIO STEP_EPOCHS GAMMA TOTAL STEPS_PER_EPOCH

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>

#include "train/grad_scaler.h"
#include "train/metric_watch.h"
#include "train/schedule.h"

namespace {

void trace_scaler(char** args) {
  dtrain::config::Amp options;
  options.init_scale = std::atof(args[0]);
  options.growth = std::atof(args[1]);
  options.backoff = std::atof(args[2]);
  options.growth_interval = std::atoll(args[3]);
  dtrain::train::GradScaler scaler(options, true, at::kCPU, at::kFloat);
  const at::Tensor weight = at::ones({});
  for (int bad; std::cin >> bad;) {
    scaler.unscale({at::full({4}, bad != 0 ? std::numeric_limits<float>::infinity() : 1.0f)},
                   weight, 0);
    scaler.update();
    const auto state = scaler.state();
    std::printf("%.17g %lld %lld\n", state.scale, static_cast<long long>(state.growth_tracker),
                static_cast<long long>(state.skipped));
  }
}

void trace_plateau(char** args) {
  dtrain::config::Schedule schedule;
  schedule.name = dtrain::config::ScheduleName::kPlateau;
  schedule.patience = std::atoll(args[1]);
  schedule.gamma = std::atof(args[2]);
  schedule.threshold = std::atof(args[3]);
  dtrain::train::Plateau plateau;
  for (std::string value; std::cin >> value;) {
    plateau.update(std::atof(value.c_str()), std::string(args[0]) == "max", schedule);
    std::printf("%.17g\n", plateau.factor);
  }
}

void trace_schedule(char** args) {
  dtrain::config::Schedule schedule;
  schedule.name = dtrain::value_named<dtrain::config::ScheduleName>(args[0]).value();
  const double base_lr = std::atof(args[1]);
  schedule.warmup_steps.steps = std::atoll(args[2]);
  schedule.final_lr_ratio = std::atof(args[3]);
  schedule.step_epochs = std::atoll(args[4]);
  schedule.gamma = std::atof(args[5]);
  const int64_t total = std::atoll(args[6]), steps_per_epoch = std::atoll(args[7]);
  for (int64_t step = 0; step < total; ++step) {
    std::printf("%.17g\n",
                dtrain::train::learning_rate(schedule, base_lr, step, total, steps_per_epoch));
  }
}

}  // namespace

int main(int count, char** args) {
  const std::string what = count > 1 ? args[1] : "";
  if (what == "scaler" && count == 6) {
    trace_scaler(args + 2);
  } else if (what == "plateau" && count == 6) {
    trace_plateau(args + 2);
  } else if (what == "schedule" && count == 10) {
    trace_schedule(args + 2);
  } else {
    std::fprintf(stderr, "see the head of reference.cpp\n");
    return 64;
  }
  return 0;
}
