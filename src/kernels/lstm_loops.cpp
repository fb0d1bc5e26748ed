#include "kernels/lstm_loops.h"

#include "kernels/vector_headers.h"

namespace dtrain::kernels {
namespace {

using Loops = LstmLoops;
#define DTRAIN_LOOPS "kernels/lstm_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace

const LstmLoops& lstm_loops() { return loops(); }

}  // namespace dtrain::kernels
