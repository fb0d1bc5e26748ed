#include "train/autocast.h"

#include <ATen/autocast_mode.h>

namespace dtrain::train {

Autocast::Autocast(Precision precision, at::Device device)
    : device_(device.type()),
      was_enabled_(at::autocast::is_autocast_enabled(device_)),
      was_dtype_(at::autocast::get_autocast_dtype(device_)) {
  const bool active = precision == Precision::kFp16 || precision == Precision::kBf16;
  at::autocast::set_autocast_enabled(device_, active);
  if (active) at::autocast::set_autocast_dtype(device_, precision == Precision::kFp16 ? at::kHalf : at::kBFloat16);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, was_dtype_);
}

}  // namespace dtrain::train
