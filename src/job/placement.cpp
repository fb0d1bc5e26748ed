#include "job/placement.h"

#include "device/device.h"
#include "layers/norm_kernels.h"
#include "models/parameter_format.h"

namespace dtrain::job {

train::Precision choose_precision(config::AmpMode amp, at::Device device) {
  return train::choose_precision(amp, device.type(), device::properties(device).capability);
}

void choose_algorithms(const config::Config& config, const data::SampleSpec& samples) {
  const bool equal_shapes = samples.kind == data::SampleSpec::Kind::kImage;
  device::set_determinism(config.train.deterministic,
                          config.device.cudnn_benchmark && equal_shapes);
  layers::use_norm_kernels(config.device.fused_norm ? std::optional(layers::NormKernels{})
                                                    : std::nullopt);
}

void place_on_device(tasks::Task& task, train::Precision precision, at::Device device,
                     bool channels_last) {
  train::apply_precision(precision);
  models::convert_floating_point(task.model(), train::parameter_dtype(precision));
  task.model().to(device);
  if (channels_last) models::set_channels_last(task.model());
}

}  // namespace dtrain::job
