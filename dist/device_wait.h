#pragma once

// How the host waits for a GPU whose work includes collectives. A collective that a network error
// has stopped spins on the device forever, and a plain wait would never learn of the error: NCCL
// reports it only when asked.

#include <torch/types.h>

#include <functional>
#include <initializer_list>

#include "dist/communicator.h"

namespace dtrain::dist {

// Waits until the device has done what is in the current stream. CommError if one of the
// communicators (null ones are ignored) has failed meanwhile. Does nothing on the CPU.
void wait_for_device(at::Device, std::initializer_list<Communicator*> communicators);

// The same, until `passed` returns true.
void wait_until(const std::function<bool()>& passed,
                std::initializer_list<Communicator*> communicators);

}  // namespace dtrain::dist
