#include "layers/depthwise_loops.h"

#include <cstring>

#include "core/vector_set.h"

namespace dtrain::layers::depthwise {
namespace {

struct Loops {
  using Run = void (*)(const Shape&, const float*, const float*, const float*, int64_t, int64_t, float*);
  Run convolve, spread, add_weight_gradient;
};

#define DTRAIN_LOOPS "layers/depthwise_loops.inc"
#include "layers/vector_sets.inc"

}  // namespace

void convolve(const Shape& shape, const float* x, const float* weights, const float* zeros, int64_t begin, int64_t end,
              float* y) {
  loops().convolve(shape, x, weights, zeros, begin, end, y);
}

void spread(const Shape& shape, const float* dy, const float* weights, const float* zeros, int64_t begin, int64_t end,
            float* dx) {
  loops().spread(shape, dy, weights, zeros, begin, end, dx);
}

void add_weight_gradient(const Shape& shape, const float* x, const float* dy, const float* zeros, int64_t begin,
                         int64_t end, float* dw) {
  loops().add_weight_gradient(shape, x, dy, zeros, begin, end, dw);
}

}  // namespace dtrain::layers::depthwise
