#include "data/augment/sample_augment.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace dtrain::data {

SampleAugment centre_crop(ImageShape shape, float share) {
  const int64_t shorter = std::min(shape.height, shape.width);
  // In whole pixels, so that a crop of exactly the output's size needs no resampling.
  const int64_t side =
      std::clamp<int64_t>(std::llround(share * static_cast<float>(shorter)), 1, shorter);
  SampleAugment result;
  result.y = static_cast<float>((shape.height - side) / 2);
  result.x = static_cast<float>((shape.width - side) / 2);
  result.height = result.width = static_cast<float>(side);
  return result;
}

SampleAugment draw(const SampleSpec& spec, uint64_t seed, int64_t epoch, int64_t sample_id,
                   ImageShape shape) {
  const auto uniform = [&](uint64_t what, float low, float high) {
    const uint64_t word =
        keyed(static_cast<uint64_t>(Purpose::kAugmentation), seed, static_cast<uint64_t>(epoch),
              static_cast<uint64_t>(sample_id), what);
    return low + (high - low) * uniform01(word);
  };
  const auto factor = [&](uint64_t what, float range) {
    return range > 0 ? uniform(what, std::max(0.0f, 1 - range), 1 + range) : 1.0f;
  };
  SampleAugment result = centre_crop(shape, spec.centre_share);
  result.flip = spec.hflip && uniform(0, 0, 1) < 0.5f;
  if (spec.crop_scale < 1 || spec.crop_ratio > 1) {
    const auto height = static_cast<float>(shape.height), width = static_cast<float>(shape.width);
    result.height = result.width = std::min(height, width) * uniform(1, spec.crop_scale, 1);
    if (spec.crop_ratio > 1) {
      const float range = std::log(spec.crop_ratio),
                  stretch = std::exp(uniform(8, -range, range) / 2);
      result.width *= stretch;
      result.height /= stretch;
      // Keeps the aspect ratio
      const float fit = std::min({1.0f, width / result.width, height / result.height});
      result.width = std::min(width, result.width * fit);
      result.height = std::min(height, result.height * fit);
    }
    result.y = uniform(2, 0, height - result.height);
    result.x = uniform(3, 0, width - result.width);
  }
  result.brightness = factor(4, spec.brightness);
  result.contrast = factor(5, spec.contrast);
  result.saturation = factor(6, spec.saturation);
  result.hue = spec.hue > 0 ? uniform(7, -spec.hue, spec.hue) : 0.0f;
  return result;
}

Normalization normalization(const SampleSpec& spec) {
  return {{spec.mean[0], spec.mean[1], spec.mean[2]}, {spec.std[0], spec.std[1], spec.std[2]}};
}

}  // namespace dtrain::data
