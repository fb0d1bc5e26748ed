// In place of additive_attention.cu in a build without GPU code.

#include "core/error.h"
#include "models/additive_attention_kernels.h"

namespace dtrain::models {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("attention on a GPU: this dtrain was built without GPU code (cmake -DDTRAIN_CUDA=ON)");
}

}  // namespace

template <>
void attention_forward_on_gpu(const AttentionProblem<float>&, float*, float*, void*) {
  refuse();
}
template <>
void attention_forward_on_gpu(const AttentionProblem<double>&, double*, double*, void*) {
  refuse();
}
template <>
void attention_backward_on_gpu(const AttentionProblem<float>&, const float*, const float*, float*, float*, float*,
                               void*) {
  refuse();
}
template <>
void attention_backward_on_gpu(const AttentionProblem<double>&, const double*, const double*, double*, double*, double*,
                               void*) {
  refuse();
}

}  // namespace dtrain::models
