#pragma once

// What bfloat16 would gain on a CPU. `train.amp: auto` means fp32 there, because whether bfloat16
// is faster depends on the CPU: those with AVX512-BF16 or AMX have products of bfloat16, others
// convert each operand. On such a CPU a run measures the gain at its start, and says so if it is
// worth a look.

#include <string>

#include "config/choices.h"
#include "data/sample_spec.h"
#include "train/precision.h"

namespace dtrain::train {

// Whether a run should measure it: no precision is chosen, and the CPU has products of bfloat16.
bool should_measure_bf16(config::AmpMode, at::DeviceType, bool has_products);

// Seconds of float32 divided by those of bfloat16, of forward and backward of a layer of the kind
// that these samples need (a convolution for images, an LSTM of `hidden` units for rows), on the
// threads of the caller. Takes less than a second on a CPU that has products of bfloat16; 0 if the
// library has no kernels for them. Training is the same as without it.
double measure_bf16_gain(data::SampleSpec::Kind, int64_t hidden);

// A sentence for the banner, empty for a gain below 1.2.
std::string advise_bf16(double gain);

}  // namespace dtrain::train
