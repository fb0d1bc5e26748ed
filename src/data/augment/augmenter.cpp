#include "data/augment/augmenter.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "data/augment/augment_pixel.h"

namespace dtrain::data {
namespace {

// Loops over a row of `n` pixels, stored as three planes: r, g, b.

DTRAIN_ROW_LOOP void mix_rows(const float* __restrict upper, const float* __restrict lower,
                              float weight, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = from_byte(lerp(upper[i], lower[i], weight));
}

DTRAIN_ROW_LOOP void brighten(float* __restrict planes, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) planes[i] = clamp01(planes[i] * factor);
}

DTRAIN_ROW_LOOP int64_t sum_grey(const float* __restrict planes, int64_t n) {
  int32_t sum = 0;  // does not overflow: Augmenter checks that n < 32768
  for (int64_t i = 0; i < n; ++i) sum += grey_units({planes[i], planes[n + i], planes[2 * n + i]});
  return sum;
}

DTRAIN_ROW_LOOP void blend(float* __restrict planes, int64_t n, float other, float factor) {
  const float rest = (1.0f - factor) * other;
  for (int64_t i = 0; i < n; ++i) planes[i] = clamp01(factor * planes[i] + rest);
}

DTRAIN_ROW_LOOP void saturate(float* __restrict r, float* __restrict g, float* __restrict b,
                              int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) {
    const Rgb pixel{r[i], g[i], b[i]};
    const Rgb blended_pixel = blended(pixel, grey(pixel), factor);
    r[i] = blended_pixel.r, g[i] = blended_pixel.g, b[i] = blended_pixel.b;
  }
}

DTRAIN_ROW_LOOP void turn_hue(float* __restrict r, float* __restrict g, float* __restrict b,
                              int64_t n, float turn) {
  for (int64_t i = 0; i < n; ++i) {
    const Rgb turned = hue_turned({r[i], g[i], b[i]}, turn);
    r[i] = turned.r, g[i] = turned.g, b[i] = turned.b;
  }
}

DTRAIN_ROW_LOOP void interleave(const float* __restrict r, const float* __restrict g,
                                const float* __restrict b, int64_t n, const float* mean,
                                const float* std, float* __restrict out) {
  const float mr = mean[0], mg = mean[1], mb = mean[2], sr = std[0], sg = std[1], sb = std[2];
  for (int64_t i = 0; i < n; ++i) {
    out[3 * i] = normalized(r[i], mr, sr);
    out[3 * i + 1] = normalized(g[i], mg, sg);
    out[3 * i + 2] = normalized(b[i], mb, sb);
  }
}

bool is_whole(float x) { return x == std::floor(x); }

}  // namespace

Augmenter::Augmenter(const SampleSpec& spec, ImageShape shape)
    : shape_(shape), side_(spec.image_size), norm_(normalization(spec)) {
  DTRAIN_CHECK(side_ >= 1 && side_ < 32768, "image size ", side_);  // sum_grey
  table_.resize(256 * 3);
  for (size_t i = 0; i < table_.size(); ++i) {
    table_[i] =
        normalized(from_byte(static_cast<float>(i / 3)), norm_.mean[i % 3], norm_.std[i % 3]);
  }
  const auto side = static_cast<size_t>(side_);
  left_.resize(side), right_.resize(side), column_weight_.resize(side);
  for (auto* row : {&rows_[0], &rows_[1], &pixels_}) row->resize(3 * side);
}

void Augmenter::operator()(const uint8_t* image, const SampleAugment& a, float* out) {
  const bool plain = a.brightness == 1 && a.contrast == 1 && a.saturation == 1 && a.hue == 0;
  const auto side = static_cast<float>(side_);
  if (plain && a.height == side && a.width == side && is_whole(a.y) && is_whole(a.x))
    return look_up(image, a, out);

  const auto n = static_cast<int32_t>(side_);
  for (int32_t i = 0; i < n; ++i) {
    const Tap column =
        tap(a.flip ? n - 1 - i : i, n, a.x, a.width, static_cast<int32_t>(shape_.width));
    const auto at = static_cast<size_t>(i);
    left_[at] = 3 * column.low, right_[at] = 3 * column.high, column_weight_[at] = column.weight;
  }
  row_of_[0] = row_of_[1] = -1;
  float* r = pixels_.data();
  float *g = r + n, *b = g + n;
  const auto finish = [&](float* to) {
    if (a.saturation != 1) saturate(r, g, b, n, a.saturation);
    if (a.hue != 0) turn_hue(r, g, b, n, a.hue);
    interleave(r, g, b, n, norm_.mean, norm_.std, to);
  };

  int64_t grey_sum = 0;
  for (int32_t i = 0; i < n; ++i) {
    const Tap row = tap(i, n, a.y, a.height, static_cast<int32_t>(shape_.height));
    const float* upper = scaled(image, row.low);
    mix_rows(upper, scaled(image, row.high), row.weight, 3 * n, r);
    if (a.brightness != 1) brighten(r, 3 * n, a.brightness);
    float* to = out + 3 * n * static_cast<int64_t>(i);
    if (a.contrast == 1) {
      finish(to);
      // contrast needs the mean of the whole image: keep the planes of this row in the output
      // until then
    } else {
      grey_sum += sum_grey(r, n);
      std::copy_n(r, 3 * n, to);
    }
  }
  if (a.contrast == 1) return;
  const float mean = mean_grey(grey_sum, n);
  for (int32_t i = 0; i < n; ++i) {
    float* to = out + 3 * n * static_cast<int64_t>(i);
    std::copy_n(to, 3 * n, r);
    blend(r, 3 * n, mean, a.contrast);
    finish(to);
  }
}

void Augmenter::look_up(const uint8_t* image, const SampleAugment& a, float* out) const {
  for (int64_t i = 0; i < side_; ++i) {
    const uint8_t* row =
        image + 3 * ((static_cast<int64_t>(a.y) + i) * shape_.width + static_cast<int64_t>(a.x));
    const uint8_t* pixel = a.flip ? row + 3 * (side_ - 1) : row;
    const int64_t step = a.flip ? -3 : 3;
    for (int64_t j = 0; j < side_; ++j, pixel += step, out += 3) {
      out[0] = table_[3 * pixel[0]];
      out[1] = table_[3 * pixel[1] + 1];
      out[2] = table_[3 * pixel[2] + 2];
    }
  }
}

// Output rows are computed from top to bottom, so the upper of the two cached rows is replaced.
const float* Augmenter::scaled(const uint8_t* image, int64_t y) {
  for (int k = 0; k < 2; ++k) {
    if (row_of_[k] == y) return rows_[k].data();
  }
  const int upper = row_of_[0] <= row_of_[1] ? 0 : 1;
  scale_row(image + 3 * y * shape_.width, rows_[upper].data());
  row_of_[upper] = y;
  return rows_[upper].data();
}

void Augmenter::scale_row(const uint8_t* row, float* planes) const {
  const int64_t n = side_;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const uint8_t *left = row + left_[at], *right = row + right_[at];
    for (int c = 0; c < 3; ++c) {
      planes[c * n + i] = lerp(left[c], right[c], column_weight_[at]);
    }
  }
}

}  // namespace dtrain::data
