#pragma once

// The states of LibTorch's own random generators, which a TorchScript file draws from: of the CPU
// and, where a run computes on one, of its GPU.

#include <torch/types.h>

#include "checkpoint/safetensors.h"

namespace dtrain::train {

// The states, named "rng.cpu" and "rng.cuda".
checkpoint::NamedTensors random_generators(at::Device);

// A state that `states` lacks, of another kind of device, stays as it is.
void set_random_generators(const checkpoint::NamedTensors& states, at::Device);

}  // namespace dtrain::train
