#include "kernels/depthwise_loops.h"

#include "kernels/vector_headers.h"

namespace dtrain::kernels::depthwise {
namespace by_vector_set {
namespace {

using Loops = DepthwiseLoops;
#define DTRAIN_LOOPS "kernels/depthwise_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace
}  // namespace by_vector_set

const DepthwiseLoops& loops() { return by_vector_set::loops(); }

}  // namespace dtrain::kernels::depthwise
