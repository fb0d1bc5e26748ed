#pragma once

// A task's network on the device of its rank, in the arithmetic of the run.

#include <torch/types.h>

#include "config/config.h"
#include "data/sample_spec.h"
#include "tasks/task.h"
#include "train/precision.h"

namespace dtrain::job {

// `train.amp` or --amp on this device. ConfigError as of train::choose_precision().
train::Precision choose_precision(config::AmpMode amp, at::Device device);

// Sets the process-wide switches for the algorithms that operators use, from train.deterministic,
// device.fused_norm and device.cudnn_benchmark. cuDNN's search for the fastest algorithm is for
// images only: sequences have another length in each batch, and every new shape would start a
// search, which takes longer than hundreds of steps.
void choose_algorithms(const config::Config&, const data::SampleSpec&);

// Sets the process-wide switches of the precision, and moves the network to the device in the dtype
// and memory format that it runs in. Call it once, after the weights are loaded and before the
// first batch.
void place_on_device(tasks::Task&, train::Precision, at::Device, bool channels_last = true);

}  // namespace dtrain::job
