#pragma once

// What an error of LibTorch in a step means for the device, in the words of a user.

#include <torch/types.h>

#include <optional>
#include <string>

#include "core/error.h"
#include "train/batch_arithmetic.h"
#include "train/train_context.h"

namespace dtrain::train {

struct DeviceState {
  at::Device device;
  double memory_bytes = 0;   // total memory of the device
  bool works = true;         // device::works()
  MemoryAdvice advice = {};  // TrainContext::memory_advice
};

struct DeviceFailure {
  DeviceError error;
  bool lost = false;  // the GPU has failed, and does not recover in this process
};

// What an error of LibTorch means for the device, if it is about that. The GPU has failed (`where`:
// in which step and phase, for the message). Or its memory is full (on the CPU, that of the host):
// names the micro-batch, the peak, and the advice, or without one the flags that train the same
// with half of the memory. Asks a failed GPU nothing.
std::optional<DeviceFailure> device_failure(const c10::Error&, const BatchArithmetic&,
                                            const DeviceState&, const std::string& where);

// Throws the error of device_failure() for the device and the batches of the context, after
// TrainContext::device_failed() if the GPU is lost; returns if there is none.
void throw_device_failure(const c10::Error&, const TrainContext&, const std::string& where);

}  // namespace dtrain::train
