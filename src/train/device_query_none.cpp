#include "core/check.h"
#include "train/device_query.h"

namespace dtrain::train {

int query_gpu_count() { return 0; }

DeviceInfo query_gpu(int index) {
  DTRAIN_CHECK(false, "asked for GPU ", index, " in a build without CUDA");
  return {};
}

std::string cuda_runtime_version() { return "none"; }

}  // namespace dtrain::train
