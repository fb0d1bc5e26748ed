#include "kernels/winograd_loops.h"

#include "kernels/vector_headers.h"

namespace dtrain::kernels::winograd {
namespace by_vector_set {
namespace {

using Loops = WinogradLoops;
#define DTRAIN_LOOPS "kernels/winograd_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace
}  // namespace by_vector_set

const WinogradLoops& loops() { return by_vector_set::loops(); }

}  // namespace dtrain::kernels::winograd
