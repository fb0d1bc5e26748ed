#pragma once

// A task's network on the device of its rank, in the arithmetic of the run.

#include <torch/types.h>

#include "config/choices.h"
#include "tasks/task.h"
#include "train/precision.h"

namespace dtrain::job {

// `train.amp` or --amp on this device. ConfigError as of train::choose_precision().
train::Precision choose_precision(config::AmpMode amp, at::Device device);

// Sets the process-wide switches of the precision, and moves the network to the device in the dtype and memory format
// that it runs in. Call it once, after the weights are loaded and before the first batch.
void place_on_device(tasks::Task&, train::Precision, at::Device, bool channels_last = true);

}  // namespace dtrain::job
