#include "layers/packed_matrix_loops.h"

#include <algorithm>
#include <cstring>

#include "core/vector_set.h"

namespace dtrain::layers {
namespace {

using Loops = MatrixLoops;
#define DTRAIN_LOOPS "layers/packed_matrix_loops.inc"
#include "layers/vector_sets.inc"

}  // namespace

const MatrixLoops& matrix_loops() { return loops(); }

}  // namespace dtrain::layers
