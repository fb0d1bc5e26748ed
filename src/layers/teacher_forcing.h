#pragma once

// Which samples of an epoch use teacher forcing: their decoder receives the correct order (Bengio
// et al. 2015, "Scheduled sampling"). Decided by a keyed draw per sample, which does not depend on
// ranks, batches or resuming, and is the same on CPU and GPU.

#include "kernels/teacher_forcing.h"

namespace at {
class Tensor;
}

namespace dtrain::layers {

struct RandomContext;

using kernels::is_forced;
using kernels::teacher_forcing_ratio;
using kernels::TeacherForcing;

// The draws of the samples of `key`, by its seed and its epoch: bool [B] on its device.
// Asynchronous on a GPU.
at::Tensor forced_samples(const RandomContext& key, const TeacherForcing&);

}  // namespace dtrain::layers
