#include "layers/depthwise_loops.h"

#include <cstring>
#include <type_traits>

#include "os/vector_set.h"

namespace dtrain::layers::depthwise {
namespace {

struct Loops {
  void (*convolve)(const Shape&, const Rows&, const float*, float*);
  void (*spread)(const Shape&, bool, const float*, const float*, const float*, const float*,
                 float*);
  void (*add_weight_gradient)(const Shape&, const Rows&, const float*, float*);
};

#define DTRAIN_LOOPS "layers/depthwise_loops.inc"
#include "layers/vector_sets.inc"

}  // namespace

void convolve(const Shape& shape, const Rows& x, const float* weights, float* y) {
  loops().convolve(shape, x, weights, y);
}

void spread(const Shape& shape, bool odd, const float* at, const float* below, const float* weights,
            const float* zeros, float* dx) {
  loops().spread(shape, odd, at, below, weights, zeros, dx);
}

void add_weight_gradient(const Shape& shape, const Rows& x, const float* dy, float* dw) {
  loops().add_weight_gradient(shape, x, dy, dw);
}

}  // namespace dtrain::layers::depthwise
