#include "layers/convolution_loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "os/vector_set.h"

namespace dtrain::layers::convolution {
namespace {

struct Loops {
  decltype(&convolution::add_weight_gradient) add_weight_gradient;
  int64_t tile_width;
};

#define DTRAIN_LOOPS "layers/convolution_loops.inc"
#include "layers/vector_sets.inc"

}  // namespace

int64_t tile_width() { return loops().tile_width; }

void add_weight_gradient(const Shape& shape, const float* x, const float* dy, int64_t begin,
                         int64_t end, int64_t tile, int64_t tile_end, float* sums, double* bias) {
  loops().add_weight_gradient(shape, x, dy, begin, end, tile, tile_end, sums, bias);
}

}  // namespace dtrain::layers::convolution
