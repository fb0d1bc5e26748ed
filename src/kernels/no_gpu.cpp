// In place of the .cu files in a build without GPU code: the entry points of their kernels, which
// refuse to run.

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <string>

#include "core/error.h"
#include "kernels/additive_attention.h"
#include "kernels/batch_norm_blocks.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout_mask.h"
#include "kernels/launch_check.h"
#include "kernels/masked_noise.h"
#include "kernels/step_numbers.h"
#include "kernels/teacher_forcing.h"
#include "kernels/unscale.h"
#include "text/strings.h"

namespace dtrain::kernels {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw DeviceError(what +
                    " on a GPU: this dtrain was built without GPU code (cmake -DDTRAIN_CUDA=ON)");
}

}  // namespace

void check_launch(LaunchResult result) {
  if (result != 0)
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, result, str("CUDA error ", result));
}

template <typename Number>
LaunchResult attention_forward_on_gpu(const AttentionProblem<Number>&, Number*, Number*, void*) {
  refuse("attention");
}
template <typename Number>
LaunchResult attention_backward_on_gpu(const AttentionProblem<Number>&, const Number*,
                                       const Number*, Number*, Number*, Number*, void*) {
  refuse("attention");
}

template <typename T>
LaunchResult cross_entropy_on_gpu(const CrossEntropy<T>&, typename CrossEntropy<T>::Number*,
                                  void*) {
  refuse("cross entropy");
}
template <typename T>
LaunchResult cross_entropy_backward_on_gpu(const CrossEntropy<T>&,
                                           const typename CrossEntropy<T>::Number*, T*, void*) {
  refuse("cross entropy");
}

template <typename T>
LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace&, float, const int64_t*, int64_t,
                                      int64_t, T, T*, void*) {
  refuse("dropout");
}

template <typename T>
LaunchResult hide_and_noise_on_gpu(const MaskedNoise&, const NoiseBatch<T>&, void*) {
  refuse("noise");
}

namespace batch_norm::blocks {
LaunchResult run_on_gpu(const TensorJob&, void*) { refuse("batch norm"); }
LaunchResult run_on_gpu(const ChannelJob&, void*) { refuse("batch norm"); }
}  // namespace batch_norm::blocks
LaunchResult draw_forced_on_gpu(const TeacherForcing&, const ForcingPlace&, const int64_t*, int64_t,
                                bool*, void*) {
  refuse("teacher forcing");
}

LaunchResult find_factor_on_gpu(const ScalerNumbers&, double, void*) { refuse("loss scaling"); }
LaunchResult end_scaled_step_on_gpu(const ScalerNumbers&, const ScalerRule&, void*) {
  refuse("loss scaling");
}
LaunchResult unscale_on_gpu(const FlatGradients&, const ScalerNumbers&, double, double*, float*,
                            void*) {
  refuse("loss scaling");
}
template <typename T>
LaunchResult note_losses_on_gpu(const NotedLosses<T>&, void*) {
  refuse("a record of losses");
}

#define DTRAIN_FOR(T)                                                                             \
  template LaunchResult cross_entropy_on_gpu(const CrossEntropy<T>&, CrossEntropy<T>::Number*,    \
                                             void*);                                              \
  template LaunchResult cross_entropy_backward_on_gpu(const CrossEntropy<T>&,                     \
                                                      const CrossEntropy<T>::Number*, T*, void*); \
  template LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace&, float, const int64_t*,   \
                                                 int64_t, int64_t, T, T*, void*);
DTRAIN_FOR(float)
DTRAIN_FOR(double)
DTRAIN_FOR(c10::Half)
DTRAIN_FOR(c10::BFloat16)
#undef DTRAIN_FOR

#define DTRAIN_FOR(Number)                                                                        \
  template LaunchResult attention_forward_on_gpu(const AttentionProblem<Number>&, Number*,        \
                                                 Number*, void*);                                 \
  template LaunchResult attention_backward_on_gpu(const AttentionProblem<Number>&, const Number*, \
                                                  const Number*, Number*, Number*, Number*,       \
                                                  void*);                                         \
  template LaunchResult note_losses_on_gpu(const NotedLosses<Number>&, void*);                    \
  template LaunchResult hide_and_noise_on_gpu(const MaskedNoise&, const NoiseBatch<Number>&, void*);
DTRAIN_FOR(float)
DTRAIN_FOR(double)
#undef DTRAIN_FOR

}  // namespace dtrain::kernels
