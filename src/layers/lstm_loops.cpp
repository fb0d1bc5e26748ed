#include "layers/lstm_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using Loops = LstmLoops;
#define DTRAIN_LOOPS "layers/lstm_loops.inc"
#include "layers/vector_sets.inc"

}  // namespace

const LstmLoops& lstm_loops() { return loops(); }

}  // namespace dtrain::layers
