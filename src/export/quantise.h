#pragma once

// A float32 graph of a convolutional network -> the same in INT8, in the QDQ form that runtimes fuse: before every
// operator that works in INT8 each activation goes through QuantizeLinear and DequantizeLinear (uint8, one scale and
// zero point per tensor), each weight is stored int8 (symmetric, one scale per output channel) and each bias int32.
// A ReLU or clip behind a convolution or addition is not parted from it: its output is what is quantised. The graph's
// outputs stay float32. Max-pooling and flattening move values only, so what leaves them keeps the scale of what came
// in. Thread-safety: pure functions.
//
// Scheme and clipping: Nagel et al. 2021, "A White Paper on Neural Network Quantization", sections 2 and 3.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "export/graph.h"

namespace dtrain::exporting {

// Values of one activation over the calibration samples, counted in bins of equal width over [low, high].
struct Histogram {
  float low = 0, high = 0;  // of all values; low <= 0 <= high
  std::vector<int64_t> counts;
};

struct Range {
  float low = 0, high = 0;  // low <= 0 <= high: zero (padding, ReLU) must be exact
};

// The range whose 256 levels, values beyond it clipped, represent the histogram with the least squared error: never
// wider than the histogram, and narrower when few far values would cost the many their precision.
Range least_error_range(const Histogram&);

struct ActivationScale {
  float scale = 1;
  uint8_t zero_point = 0;  // q = clamp(round(x / scale) + zero_point, 0, 255), round half to even
};
ActivationScale scale_of(Range);

// Names of the activations whose range quantise() needs, in the order of their making.
std::vector<std::string> activations_to_quantise(const Graph&);

Graph quantise(const Graph&, const std::map<std::string, Range>& ranges);

}  // namespace dtrain::exporting
