// In place of masked_noise.cu in a build without GPU code.

#include "core/error.h"
#include "models/masked_noise_body.h"

namespace dtrain::models {

template <typename T>
void hide_and_noise_on_gpu(const MaskedNoise&, const NoiseBatch<T>&, void*) {
  throw DeviceError("noise on a GPU: this dtrain was built without GPU code (cmake -DDTRAIN_CUDA=ON)");
}

template void hide_and_noise_on_gpu<float>(const MaskedNoise&, const NoiseBatch<float>&, void*);
template void hide_and_noise_on_gpu<double>(const MaskedNoise&, const NoiseBatch<double>&, void*);

}  // namespace dtrain::models
