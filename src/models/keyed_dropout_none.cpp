// In place of keyed_dropout.cu in a build without GPU code.

#include "core/error.h"
#include "models/keyed_dropout.h"

namespace dtrain::models {

void fill_dropout_mask_on_gpu(const DropoutKey&, float, const int64_t*, int64_t, int64_t, uint8_t*, void*) {
  throw DeviceError("dropout on a GPU: this dtrain was built without GPU code (cmake -DDTRAIN_CUDA=ON)");
}

}  // namespace dtrain::models
