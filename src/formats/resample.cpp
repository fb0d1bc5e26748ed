#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "formats/image.h"

namespace dtrain::formats {
namespace {

// The source pixels that contribute to each output pixel along one axis, and their weights (which
// sum to 1).
struct Taps {
  std::vector<int> position;  // `count` positions per output pixel, clamped to the image
  std::vector<float> weight;
  int count = 0;
};

Taps taps(double begin, double end, int outputs, int size) {
  const double step = (end - begin) / outputs;
  const double reach = std::max(step, 1.0);  // half the width of the triangle
  Taps result;
  result.count = static_cast<int>(std::ceil(reach)) * 2 + 1;
  for (int o = 0; o < outputs; ++o) {
    const double center = begin + (o + 0.5) * step;
    const int first = static_cast<int>(std::floor(center - reach));
    double sum = 0;
    std::vector<double> weights(static_cast<size_t>(result.count));
    for (int k = 0; k < result.count; ++k) {
      weights[k] = std::max(0.0, 1 - std::abs(first + k + 0.5 - center) / reach);
      sum += weights[k];
    }
    for (int k = 0; k < result.count; ++k) {
      result.position.push_back(std::clamp(first + k, 0, size - 1));
      result.weight.push_back(static_cast<float>(weights[k] / sum));
    }
  }
  return result;
}

}  // namespace

Image resample(const Image& image, const Box& box, int width, int height) {
  DTRAIN_CHECK(width > 0 && height > 0 && box.right > box.left && box.bottom > box.top);
  const Taps across = taps(box.left, box.right, width, image.width);
  const Taps down = taps(box.top, box.bottom, height, image.height);
  const auto [low, high] = std::minmax_element(down.position.begin(), down.position.end());
  const int first_row = *low, rows = *high - *low + 1;

  std::vector<float> narrow(static_cast<size_t>(rows) * width * 3);  // scaled horizontally only
  for (int y = 0; y < rows; ++y) {
    float* out = narrow.data() + static_cast<size_t>(y) * width * 3;
    for (int x = 0; x < width; ++x, out += 3) {
      for (int k = x * across.count; k < (x + 1) * across.count; ++k) {
        const uint8_t* pixel = image.at(across.position[k], first_row + y);
        for (int c = 0; c < 3; ++c) out[c] += across.weight[k] * pixel[c];
      }
    }
  }

  Image result(width, height);
  std::vector<float> row(static_cast<size_t>(width) * 3);
  for (int y = 0; y < height; ++y) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (int k = y * down.count; k < (y + 1) * down.count; ++k) {
      if (down.weight[k] == 0) continue;
      const float* in =
          narrow.data() + static_cast<size_t>(down.position[k] - first_row) * width * 3;
      for (size_t i = 0; i < row.size(); ++i) row[i] += down.weight[k] * in[i];
    }
    uint8_t* out = result.at(0, y);
    for (size_t i = 0; i < row.size(); ++i) {
      out[i] = static_cast<uint8_t>(std::clamp(std::lround(row[i]), 0L, 255L));
    }
  }
  return result;
}

}  // namespace dtrain::formats
