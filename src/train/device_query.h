#pragma once

// What only the CUDA runtime knows; device_query_none.cpp answers in builds without it.

#include "train/device.h"

namespace dtrain::train {

int query_gpu_count();
DeviceInfo query_gpu(int index);  // Requires: index < query_gpu_count()

}  // namespace dtrain::train
