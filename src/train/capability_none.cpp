#include "core/error.h"
#include "train/precision.h"

namespace dtrain::train {

int compute_capability(at::Device device) {
  if (device.is_cuda()) throw DeviceError("this dtrain was built without GPU code (DTRAIN_CUDA is OFF)");
  return 0;
}

}  // namespace dtrain::train
