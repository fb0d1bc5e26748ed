#include "kernels/depthwise_loops.h"

#include "kernels/vector_headers.h"

namespace dtrain::kernels::depthwise {
namespace {

struct Loops {
  void (*convolve)(const DepthwiseShape&, const WindowRows&, const float*, float*);
  void (*spread)(const DepthwiseShape&, bool, const float*, const float*, const float*,
                 const float*, float*);
  void (*add_weight_gradient)(const DepthwiseShape&, const WindowRows&, const float*, float*);
};

#define DTRAIN_LOOPS "kernels/depthwise_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace

void convolve(const DepthwiseShape& shape, const WindowRows& x, const float* weights, float* y) {
  loops().convolve(shape, x, weights, y);
}

void spread(const DepthwiseShape& shape, bool odd, const float* at, const float* below,
            const float* weights, const float* zeros, float* dx) {
  loops().spread(shape, odd, at, below, weights, zeros, dx);
}

void add_weight_gradient(const DepthwiseShape& shape, const WindowRows& x, const float* dy,
                         float* dw) {
  loops().add_weight_gradient(shape, x, dy, dw);
}

}  // namespace dtrain::kernels::depthwise
