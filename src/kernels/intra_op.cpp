// Compiled with OpenMP (CMakeLists.txt).

#include "kernels/intra_op.h"

#include <ATen/Parallel.h>

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for would run on one thread"
#endif

namespace dtrain::kernels {

void intra_op_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(begin, end, grain, body);
}

}  // namespace dtrain::kernels
