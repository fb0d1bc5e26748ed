#pragma once

// The arithmetic of one pixel, shared by the CPU's row loops and the GPU's kernels. Both give the
// same bits, because it uses only operations whose rounding IEEE 754 defines (no fused
// multiply-add, see cmake/Modules.cmake; no library functions) and a fixed-point sum for the mean
// gray level. The color functions have no branches, so that compilers can vectorize the row loops.
// source_pixel() and finished_pixel() combine them for one pixel: the GPU's kernels and the tests'
// reference call these.

#include <cstdint>

#include "core/host_device.h"
#include "data/augment/sample_augment.h"

namespace dtrain::data {

struct Rgb {
  float r, g, b;  // 0 to 1
};

// The two source pixels that output pixel `i` of `side` interpolates along one axis, for a crop
// that covers [begin, begin + extent) of `size` source pixels.
struct Tap {
  int32_t low, high;
  float weight;  // share of `high`; `low` has the rest
};
DTRAIN_HD inline Tap tap(int32_t i, int32_t side, float begin, float extent, int32_t size) {
  const float last = static_cast<float>(size - 1);
  float at = begin + ((static_cast<float>(i) + 0.5f) * extent / static_cast<float>(side) - 0.5f);
  at = at < 0.0f ? 0.0f : at > last ? last : at;
  const int32_t low = static_cast<int32_t>(at);
  return {low, low + 1 < size ? low + 1 : low, at - static_cast<float>(low)};
}

DTRAIN_HD inline float lerp(float a, float b, float weight) { return a + (b - a) * weight; }
DTRAIN_HD inline float clamp01(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }
DTRAIN_HD inline float from_byte(float x) { return x / 255.0f; }
DTRAIN_HD inline float normalized(float x, float mean, float std) { return (x - mean) / std; }

DTRAIN_HD inline float grey(Rgb p) { return 0.2989f * p.r + 0.587f * p.g + 0.114f * p.b; }

// The mean gray level is a sum of integers, so that the order of summation does not matter.
constexpr float kGreyUnit = 65536.0f;
DTRAIN_HD inline int32_t grey_units(Rgb p) {
  return static_cast<int32_t>(grey(p) * kGreyUnit + 0.5f);
}
DTRAIN_HD inline float mean_grey(int64_t sum, int32_t side) {
  return static_cast<float>(sum) /
         (kGreyUnit * static_cast<float>(side) * static_cast<float>(side));
}

DTRAIN_HD inline Rgb brightened(Rgb p, float factor) {
  return {clamp01(p.r * factor), clamp01(p.g * factor), clamp01(p.b * factor)};
}

// A factor of 0 gives `other`; a factor of 1 gives exactly p.
DTRAIN_HD inline Rgb blended(Rgb p, float other, float factor) {
  const float rest = (1.0f - factor) * other;
  return {clamp01(factor * p.r + rest), clamp01(factor * p.g + rest), clamp01(factor * p.b + rest)};
}

// One channel of the color with hue `h`, in sixths of a turn: a trapezoid function. Requires: h +
// offset >= 0.
DTRAIN_HD inline float hue_channel(float max, float chroma, float h, float offset) {
  const float sum = h + offset;
  const float k = sum - 6.0f * static_cast<float>(static_cast<int32_t>(sum / 6.0f));
  const float falling = 4.0f - k;
  return max - chroma * clamp01(k < falling ? k : falling);
}

// Converts RGB to HSV, rotates the hue by `turn` turns, and converts back.
DTRAIN_HD inline Rgb hue_turned(Rgb p, float turn) {
  const float rg_max = p.r > p.g ? p.r : p.g, rg_min = p.r < p.g ? p.r : p.g;
  const float max = rg_max > p.b ? rg_max : p.b, min = rg_min < p.b ? rg_min : p.b;
  const float chroma = max - min;
  const float at_g = p.g == max ? p.b - p.r : p.r - p.g;
  const float difference = p.r == max ? p.g - p.b : at_g;
  const float sector = p.r == max ? 0.0f : p.g == max ? 2.0f : 4.0f;
  // The value is in [2, 14]
  const float h = sector + difference / (chroma > 0.0f ? chroma : 1.0f) + 6.0f * turn + 6.0f;
  return {hue_channel(max, chroma, h, 5.0f), hue_channel(max, chroma, h, 3.0f),
          hue_channel(max, chroma, h, 1.0f)};
}

// Output pixel (i, j) after resampling, flip and brightness. The mean gray level is computed
// from these.
DTRAIN_HD inline Rgb source_pixel(const uint8_t* image, ImageShape shape, const SampleAugment& a,
                                  int32_t side, int32_t i, int32_t j) {
  const Tap row = tap(i, side, a.y, a.height, static_cast<int32_t>(shape.height));
  const Tap column =
      tap(a.flip ? side - 1 - j : j, side, a.x, a.width, static_cast<int32_t>(shape.width));
  const uint8_t* upper = image + 3 * row.low * shape.width;
  const uint8_t* lower = image + 3 * row.high * shape.width;
  float value[3];
  for (int c = 0; c < 3; ++c) {
    const float above = lerp(upper[3 * column.low + c], upper[3 * column.high + c], column.weight);
    const float below = lerp(lower[3 * column.low + c], lower[3 * column.high + c], column.weight);
    value[c] = from_byte(lerp(above, below, row.weight));
  }
  return brightened({value[0], value[1], value[2]}, a.brightness);
}

// Applies the remaining steps: contrast against the image's mean gray level, saturation,
// hue, normalization.
DTRAIN_HD inline void finished_pixel(Rgb p, float mean, const SampleAugment& a,
                                     const Normalization& norm, float* out) {
  p = blended(p, mean, a.contrast);
  p = blended(p, grey(p), a.saturation);
  if (a.hue != 0) p = hue_turned(p, a.hue);
  out[0] = normalized(p.r, norm.mean[0], norm.std[0]);
  out[1] = normalized(p.g, norm.mean[1], norm.std[1]);
  out[2] = normalized(p.b, norm.mean[2], norm.std[2]);
}

}  // namespace dtrain::data
