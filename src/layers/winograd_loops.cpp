#include "layers/winograd_loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "os/vector_set.h"

namespace dtrain::layers::winograd {
namespace by_vector_set {
namespace {

#define DTRAIN_LOOPS "layers/winograd_loops.inc"
#include "layers/vector_sets.inc"

}  // namespace
}  // namespace by_vector_set

const Loops& loops() { return by_vector_set::loops(); }

}  // namespace dtrain::layers::winograd
