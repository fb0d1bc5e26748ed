#pragma once

namespace dtrain::train {

// LibTorch's switches for the whole process, before the first operator. `deterministic`: operators that give the same
// bits each time (an operator without such a form is an error that names it), and no search among cuDNN's algorithms.
void apply_determinism(bool deterministic, bool cudnn_benchmark);

}  // namespace dtrain::train
