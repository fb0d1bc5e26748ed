#pragma once

// Launches a kernel on the current stream of a device.

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "kernels/launch_check.h"

namespace dtrain::kernels {

// launch(void* stream) returns a LaunchResult, and does not wait for the kernel. Throws as
// check_launch() does.
template <typename Launch>
void launch_on(c10::Device device, Launch launch) {
  const c10::DeviceGuard guard(device);
  check_launch(
      launch(c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle()));
}

}  // namespace dtrain::kernels
