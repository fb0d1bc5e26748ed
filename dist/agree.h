#pragma once

// How ranks agree that a step of start-up or shut-down has succeeded, before they meet in a
// collective that would hang if one of them had failed: a failure of any rank becomes the failure
// of all.

#include <functional>
#include <string>

#include "dist/communicator.h"

namespace dtrain::dist {

// Runs `step` on every rank. If it throws on any rank, the lowest such rank prints its message, and
// all ranks throw AgreedFailure (failure.h) with that rank's exit code. `step` must not be
// collective. Collective.
void agree(Communicator&, const std::function<void()>& step);

// The same for a `step` that only rank 0 runs, such as writing to the run folder. Collective.
void agree_on_rank0(Communicator&, const std::function<void()>& step);

// `failure`: why the device or the machine of this rank cannot do what all ranks need; "" if it
// can. If any rank has a failure, all throw the same DeviceError, with the text and the number of
// the lowest one. Collective.
void agree_on_devices(Communicator&, const std::string& failure);

}  // namespace dtrain::dist
