#include "core/error.h"
#include "data/loader/device_stage.h"
#include "text/strings.h"

namespace dtrain::data {

std::unique_ptr<DeviceStage> make_device_stage(at::Device device, const StageOptions&) {
  throw DeviceError(str("batches for device ", device.str(),
                        " were requested, but this dtrain was built without GPU code. Build it "
                        "with -DDTRAIN_CUDA=ON against a "
                        "LibTorch with CUDA, or run with --device.type cpu."));
}

}  // namespace dtrain::data
