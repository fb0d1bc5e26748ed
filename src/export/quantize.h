#pragma once

// Converts the float32 graph of a convolutional network to INT8, in the QDQ form that runtimes
// fuse. Before every operator that runs in INT8, each activation passes through QuantizeLinear and
// DequantizeLinear (uint8, one scale and zero point per tensor). Weights are stored as int8
// (symmetric, one scale per output channel), biases as int32. A ReLU or clip stays together with
// the preceding convolution or addition: its output is quantized. Max-pooling and flattening only
// move values, so their outputs keep the scale of their inputs. The graph's outputs stay float32.
//
// Scheme and clipping: Nagel et al. 2021, "A White Paper on Neural Network Quantization", sections
// 2 and 3. Thread-safety: pure functions.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "export/graph.h"

namespace dtrain::exporting {

// The values of one activation on the calibration samples, counted in bins of equal width over
// [low, high].
struct Histogram {
  float low = 0, high = 0;  // range of all values; low <= 0 <= high
  std::vector<int64_t> counts;
};

struct ActivationRange {
  float low = 0, high = 0;  // low <= 0 <= high, because zero (padding, ReLU) must be exact
};

// The range whose 256 levels represent the histogram with the least squared error, when values
// outside it are clipped. Never wider than the histogram; narrower if a few outliers would make all
// other values less precise.
ActivationRange least_error_range(const Histogram&);

struct ActivationScale {
  float scale = 1;
  uint8_t zero_point = 0;  // q = clamp(round(x / scale) + zero_point, 0, 255), round half to even
};
ActivationScale scale_of(ActivationRange);

// Names of the activations whose ranges quantize() needs, in the order of the graph.
std::vector<std::string> activations_to_quantize(const Graph&);

Graph quantize(const Graph&, const std::map<std::string, ActivationRange>& ranges);

}  // namespace dtrain::exporting
