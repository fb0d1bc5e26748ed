#include "device/profiler_range.h"

#include <nvtx3/nvToolsExt.h>

namespace dtrain::device {

void ProfilerRange::begin(const char* name) {
  end();
  nvtxRangePushA(name);
  open_ = true;
}

void ProfilerRange::end() {
  if (open_) nvtxRangePop();
  open_ = false;
}

}  // namespace dtrain::device
