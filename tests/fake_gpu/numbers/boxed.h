#pragma once

// One kernel for every operator that has one for the CPU: it runs that on the same memory. What an
// operator returns is allocated when it is called, as a GPU's kernels do, and its shape comes from
// the operator's kernel for the device "meta". Where that has none, or where the shape or the
// result depends on data, the host waits for the stream first, as it does for a GPU, which is an
// error in a capture. An operator that draws numbers is one too, unless its generator is registered
// with the graph.

#include <ATen/core/dispatch/Dispatcher.h>

namespace fake_gpu {

void compute_boxed(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*);

// Whether it can: not for views and for what only allocates.
bool can_be_boxed(const c10::OperatorHandle&);

}  // namespace fake_gpu
