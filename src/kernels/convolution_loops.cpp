#include "kernels/convolution_loops.h"

#include "kernels/vector_headers.h"

namespace dtrain::kernels::convolution {
namespace {

struct Loops {
  decltype(&convolution::add_weight_gradient) add_weight_gradient;
  int64_t tile_width;
};

#define DTRAIN_LOOPS "kernels/convolution_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace

int64_t tile_width() { return loops().tile_width; }

void add_weight_gradient(const ConvShape& shape, const float* x, const float* dy, int64_t begin,
                         int64_t end, int64_t tile, int64_t tile_end, float* sums, double* bias) {
  loops().add_weight_gradient(shape, x, dy, begin, end, tile, tile_end, sums, bias);
}

}  // namespace dtrain::kernels::convolution
