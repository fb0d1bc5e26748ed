#include "layers/autocast.h"

#include <ATen/autocast_mode.h>

namespace dtrain::layers {
namespace {

void apply(const AutocastState& state) {
  at::autocast::set_autocast_enabled(state.device, state.enabled);
  at::autocast::set_autocast_dtype(state.device, state.dtype);
}

}  // namespace

AutocastState current_autocast(at::DeviceType device) {
  return {device, at::autocast::is_autocast_enabled(device),
          at::autocast::get_autocast_dtype(device)};
}

AutocastGuard::AutocastGuard(const AutocastState& state)
    : previous_(current_autocast(state.device)) {
  apply(state);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  apply(previous_);
}

}  // namespace dtrain::layers
