#include "models/parameter_format.h"

namespace dtrain::models {

void convert_floating_point(torch::nn::Module& module, at::ScalarType dtype) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (at::Tensor tensor : tensors) {
      if (tensor.is_floating_point() && tensor.scalar_type() != dtype)
        tensor.set_data(tensor.to(dtype));
    }
  }
}

void set_channels_last(torch::nn::Module& module) {
  for (at::Tensor& parameter : module.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

}  // namespace dtrain::models
