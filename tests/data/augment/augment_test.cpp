#include "data/augment/augmenter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/augment/augment_pixel.h"

namespace dtrain::data {
namespace {

std::vector<uint8_t> image_of(ImageShape shape, uint64_t key = 1) {
  std::vector<uint8_t> image(static_cast<size_t>(shape.bytes()));
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(keyed(key, i) >> 56);
  return image;
}

SampleSpec spec_of(int64_t side) {
  SampleSpec spec;
  spec.image_size = side;
  return spec;
}

std::vector<float> augmented(const SampleSpec& spec, ImageShape shape,
                             const std::vector<uint8_t>& image, const SampleAugment& augment) {
  std::vector<float> out(static_cast<size_t>(spec.image_size * spec.image_size * 3), -1e9f);
  Augmenter(spec, shape)(image.data(), augment, out.data());
  return out;
}

// Computes pixel by pixel, as the GPU's kernels do.
std::vector<float> augmented_by_pixel(const SampleSpec& spec, ImageShape shape,
                                      const std::vector<uint8_t>& image,
                                      const SampleAugment& augment) {
  const auto side = static_cast<int32_t>(spec.image_size);
  int64_t sum = 0;
  for (int32_t p = 0; p < side * side; ++p) {
    sum += grey_units(source_pixel(image.data(), shape, augment, side, p / side, p % side));
  }
  std::vector<float> out(static_cast<size_t>(side * side * 3));
  for (int32_t p = 0; p < side * side; ++p) {
    const Rgb pixel = source_pixel(image.data(), shape, augment, side, p / side, p % side);
    finished_pixel(pixel, mean_grey(sum, side), augment, normalization(spec),
                   &out[static_cast<size_t>(3 * p)]);
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Without random changes, the result is exactly the normalization formula.
TEST(Augment, WithoutChangesIsPlainNormalization) {
  const ImageShape shape{31, 31};
  const auto image = image_of(shape);
  const SampleSpec spec = spec_of(31);
  std::vector<float> expected;
  for (size_t i = 0; i < image.size(); ++i) {
    expected.push_back((static_cast<float>(image[i]) / 255.0f - spec.mean[i % 3]) /
                       spec.std[i % 3]);
  }
  EXPECT_TRUE(same_bits(augmented(spec, shape, image, centre_crop(shape)), expected));
  EXPECT_TRUE(same_bits(augmented(spec, shape, image, draw(spec, 1, 2, 3, shape)), expected));
  EXPECT_TRUE(same_bits(augmented_by_pixel(spec, shape, image, centre_crop(shape)), expected));
}

TEST(Augment, AFlipMirrorsTheImage) {
  const ImageShape shape{9, 9};
  const auto image = image_of(shape);
  const SampleSpec spec = spec_of(9);
  SampleAugment flip = centre_crop(shape);
  flip.flip = 1;
  const auto plain = augmented(spec, shape, image, centre_crop(shape)),
             mirror = augmented(spec, shape, image, flip);
  for (size_t y = 0; y < 9; ++y) {
    for (size_t x = 0; x < 9; ++x) {
      for (size_t c = 0; c < 3; ++c)
        EXPECT_EQ(mirror[(y * 9 + x) * 3 + c], plain[(y * 9 + 8 - x) * 3 + c]);
    }
  }
}

// The CPU's row loops and the GPU's per-pixel formula give the same bits.
TEST(Augment, RowLoopsAndPixelFormulaGiveTheSameBits) {
  const std::vector<std::pair<ImageShape, int64_t>> sizes{
      {{16, 16}, 16}, {{20, 31}, 16}, {{31, 20}, 33}, {{64, 64}, 48}, {{1, 1}, 5}, {{7, 5}, 1}};
  for (const auto& [shape, side] : sizes) {
    const auto image = image_of(shape);
    for (int parts = 0; parts < 64; ++parts) {
      SampleSpec spec = spec_of(side);
      spec.hflip = parts & 1;
      if (parts & 2) spec.crop_scale = 0.5f;
      if (parts & 4) spec.brightness = 0.4f;
      if (parts & 8) spec.contrast = 0.6f;
      if (parts & 16) spec.saturation = 1.5f;
      if (parts & 32) spec.hue = 0.5f;
      if (parts & 6) spec.crop_ratio = 1.5f;
      for (int64_t id = 0; id < 3; ++id) {
        const SampleAugment augment = draw(spec, 11, 0, id, shape);
        ASSERT_TRUE(same_bits(augmented(spec, shape, image, augment),
                              augmented_by_pixel(spec, shape, image, augment)))
            << shape.height << " x " << shape.width << " to " << side << ", parts " << parts
            << ", id " << id;
      }
    }
  }
}

// An Augmenter keeps no state from one image to the next.
TEST(Augment, DependsOnTheImageAndItsTransformOnly) {
  const ImageShape shape{24, 24};
  SampleSpec spec = spec_of(16);
  spec.hflip = true, spec.crop_scale = 0.6f, spec.contrast = 0.5f, spec.hue = 0.1f;
  Augmenter shared(spec, shape);
  std::vector<float> out(16 * 16 * 3);
  for (int64_t id : {3, 1, 2, 1}) {
    const auto image = image_of(shape, static_cast<uint64_t>(id));
    const SampleAugment augment = draw(spec, 5, 0, id, shape);
    shared(image.data(), augment, out.data());
    EXPECT_TRUE(same_bits(out, augmented(spec, shape, image, augment)));
  }
}

// A ramp is linear, so bilinear sampling must give the value of the ramp at the center of each
// output pixel.
TEST(Augment, SamplesARampAtThePixelCenters) {
  const ImageShape shape{40, 40};
  std::vector<uint8_t> image(static_cast<size_t>(shape.bytes()));
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<uint8_t>(2 * (i / 3 % 40) + 3 * (i / 120));
  SampleSpec spec = spec_of(10);
  spec.mean = {0, 0, 0}, spec.std = {1, 1, 1};
  SampleAugment crop;
  crop.y = 3.5f, crop.x = 8.25f, crop.height = 20, crop.width = 30;
  const auto out = augmented(spec, shape, image, crop);
  for (size_t y = 0; y < 10; ++y) {
    for (size_t x = 0; x < 10; ++x) {
      const double row = 3.5 + (double(y) + 0.5) * 2 - 0.5,
                   column = 8.25 + (double(x) + 0.5) * 3 - 0.5;
      EXPECT_NEAR(out[(y * 10 + x) * 3] * 255, 2 * column + 3 * row, 1e-3);
    }
  }
}

TEST(Augment, CenterCropIsTheLargestCenteredSquare) {
  const SampleAugment wide = centre_crop({20, 31});
  EXPECT_EQ(wide.y, 0);
  EXPECT_EQ(wide.x, 5);
  EXPECT_EQ(wide.height, 20);
  EXPECT_EQ(wide.width, 20);
  const ImageShape shape{20, 31};
  const auto image = image_of(shape);
  SampleSpec spec = spec_of(20);
  spec.mean = {0, 0, 0}, spec.std = {1, 1, 1};
  const auto out = augmented(spec, shape, image, wide);
  EXPECT_EQ(out[0], static_cast<float>(image[5 * 3]) / 255.0f);
  EXPECT_EQ(out[(19 * 20 + 19) * 3 + 2],
            static_cast<float>(image[(19 * 31 + 24) * 3 + 2]) / 255.0f);
}

// 224 of 256 is the usual evaluation crop. It is in whole pixels, so that a crop of the output's
// size is not resampled.
TEST(Augment, CenterCropIsInWholePixels) {
  const SampleAugment usual = centre_crop({256, 300}, 224.0f / 256);
  EXPECT_EQ(usual.height, 224);
  EXPECT_EQ(usual.width, 224);
  EXPECT_EQ(usual.y, 16);
  EXPECT_EQ(usual.x, 38);
  EXPECT_EQ(centre_crop({255, 255}, 0.875f).height, 223);
  EXPECT_EQ(centre_crop({3, 3}, 0.01f).height, 1);
  EXPECT_EQ(centre_crop({20, 31}, 1).height, 20);

  const ImageShape shape{16, 20};
  const auto image = image_of(shape);
  SampleSpec spec = spec_of(14);
  spec.mean = {0, 0, 0}, spec.std = {1, 1, 1}, spec.centre_share = 14.0f / 16;
  const auto out = augmented(spec, shape, image, centre_crop(shape, spec.centre_share));
  for (size_t y = 0; y < 14; ++y) {
    for (size_t i = 0; i < 14 * 3; ++i) {
      ASSERT_EQ(out[y * 14 * 3 + i],
                static_cast<float>(image[((y + 1) * 20 + 3) * 3 + i]) / 255.0f);
    }
  }
  EXPECT_TRUE(same_bits(out, augmented(spec, shape, image, draw(spec, 1, 2, 3, shape))))
      << "no random crop is requested";
}

// Earlier versions had square crops only; their random values must not change.
TEST(Augment, ARatioOfOneKeepsTheRandomValues) {
  const ImageShape shape{40, 60};
  SampleSpec spec = spec_of(32);
  spec.crop_scale = 0.6f;
  for (int64_t id = 0; id < 200; ++id) {
    const auto uniform = [&](uint64_t what, float low, float high) {
      const auto purpose = static_cast<uint64_t>(Purpose::kAugmentation);
      return low + (high - low) * uniform01(keyed(purpose, uint64_t{4}, uint64_t{5},
                                                  static_cast<uint64_t>(id), what));
    };
    const float side = 40 * uniform(1, 0.6f, 1);
    const SampleAugment a = draw(spec, 4, 5, id, shape);
    EXPECT_EQ(a.height, side);
    EXPECT_EQ(a.width, side);
    EXPECT_EQ(a.y, uniform(2, 0, 40 - side));
    EXPECT_EQ(a.x, uniform(3, 0, 60 - side));
  }
}

TEST(Augment, CropsWithARatioFitAndKeepTheArea) {
  for (const ImageShape shape :
       {ImageShape{64, 64}, ImageShape{40, 60}, ImageShape{60, 40}, ImageShape{1, 9}}) {
    SampleSpec spec = spec_of(32), square = spec_of(32);
    spec.crop_scale = square.crop_scale = 0.3f;
    spec.crop_ratio = 4.0f / 3;
    const auto height = static_cast<float>(shape.height), width = static_cast<float>(shape.width);
    double sum = 0, squares = 0;
    int smaller = 0;
    for (int64_t id = 0; id < 4000; ++id) {
      const SampleAugment a = draw(spec, 1, 0, id, shape), s = draw(square, 1, 0, id, shape);
      ASSERT_TRUE(0 <= a.y && a.y + a.height <= height * 1.00001f && 0 <= a.x &&
                  a.x + a.width <= width * 1.00001f);
      const double ratio = a.width / a.height;
      ASSERT_TRUE(0.7499 <= ratio && ratio <= 1.3334) << ratio;
      const double area = double(a.height) * a.width / (double(s.height) * s.width);
      ASSERT_LE(area, 1.0001);
      if (area < 0.9999) {
        ++smaller;
        EXPECT_TRUE(a.height > height * 0.9999f || a.width > width * 0.9999f)
            << "only a crop that does not fit may shrink";
      }
      sum += std::log(ratio), squares += std::log(ratio) * std::log(ratio);
    }
    EXPECT_NEAR(sum / 4000, 0, 0.015);  // 5 standard deviations
    // Uniform in the logarithm
    EXPECT_NEAR(squares / 4000, std::pow(std::log(4.0 / 3), 2) / 3, 0.0025);
    EXPECT_TRUE(0 < smaller && smaller < 2000) << smaller;
  }
  SampleSpec whole = spec_of(32);  // a ratio without a scale
  whole.crop_ratio = 2;
  int wide = 0;
  for (int64_t id = 0; id < 400; ++id) {
    const SampleAugment a = draw(whole, 1, 0, id, {64, 64});
    ASSERT_NEAR(std::max(a.width, a.height), 64, 1e-3);
    wide += a.width > a.height;
  }
  EXPECT_NEAR(wide, 200, 50);
}

TEST(Augment, RandomValuesAreKeyedAndInRange) {
  const ImageShape shape{40, 60};
  SampleSpec spec = spec_of(32);
  spec.hflip = true, spec.crop_scale = 0.7f;
  spec.brightness = 0.2f, spec.contrast = 0.3f, spec.saturation = 1.4f, spec.hue = 0.05f;
  int flips = 0;
  double brightness = 0;
  for (int64_t id = 0; id < 4000; ++id) {
    const SampleAugment a = draw(spec, 1, 0, id, shape);
    flips += a.flip;
    brightness += a.brightness;
    ASSERT_TRUE(0.7f * 40 - 1e-3f <= a.height && a.height <= 40 && a.height == a.width);
    ASSERT_TRUE(0 <= a.y && a.y + a.height <= 40.001f && 0 <= a.x && a.x + a.width <= 60.001f);
    ASSERT_TRUE(0.8f <= a.brightness && a.brightness <= 1.2f && 0.7f <= a.contrast &&
                a.contrast <= 1.3f);
    ASSERT_TRUE(0 <= a.saturation && a.saturation <= 2.4f && -0.05f <= a.hue && a.hue <= 0.05f);
  }
  EXPECT_NEAR(flips, 2000, 160);  // 5 standard deviations
  EXPECT_NEAR(brightness / 4000, 1.0, 0.01);
  const auto bytes = [](const SampleAugment& a) {
    return std::string(reinterpret_cast<const char*>(&a), sizeof(a));
  };
  const auto base = bytes(draw(spec, 1, 0, 7, shape));
  EXPECT_EQ(base, bytes(draw(spec, 1, 0, 7, shape)));
  EXPECT_NE(base, bytes(draw(spec, 2, 0, 7, shape)));
  EXPECT_NE(base, bytes(draw(spec, 1, 1, 7, shape)));
  EXPECT_NE(base, bytes(draw(spec, 1, 0, 8, shape)));
}

// An option must not change the random values of another one: a sample has the same flip with and
// without color jitter.
TEST(Augment, EachRandomValueHasItsOwnKey) {
  const ImageShape shape{40, 40};
  SampleSpec flip_only = spec_of(32), all = spec_of(32);
  flip_only.hflip = all.hflip = true;
  all.crop_scale = 0.5f, all.brightness = 0.2f, all.hue = 0.1f;
  for (int64_t id = 0; id < 100; ++id)
    EXPECT_EQ(draw(flip_only, 1, 0, id, shape).flip, draw(all, 1, 0, id, shape).flip);
}

// Compares with the textbook conversion to HSV, in double precision.
TEST(Augment, HueRotationFollowsTheDefinition) {
  for (uint64_t k = 0; k < 3000; ++k) {
    const Rgb in{uniform01(keyed(k, 1)), k % 7 ? uniform01(keyed(k, 2)) : uniform01(keyed(k, 1)),
                 uniform01(keyed(k, 3))};
    const float turn = uniform01(keyed(k, 4)) - 0.5f;
    const double r = in.r, g = in.g, b = in.b;
    const double max = std::max({r, g, b}), min = std::min({r, g, b}), c = max - min;
    double h = 0;
    if (c > 0) h = max == r ? (g - b) / c : max == g ? 2 + (b - r) / c : 4 + (r - g) / c;
    h = h / 6 + turn;
    h = (h - std::floor(h)) * 6;
    const double f = h - std::floor(h), p = min, q = max - c * f, t = max - c * (1 - f);
    const double table[6][3] = {{max, t, p}, {q, max, p}, {p, max, t},
                                {p, q, max}, {t, p, max}, {max, p, q}};
    const double* want = table[static_cast<int>(h) % 6];
    const Rgb got = hue_turned(in, turn);
    EXPECT_NEAR(got.r, want[0], 1e-5);
    EXPECT_NEAR(got.g, want[1], 1e-5);
    EXPECT_NEAR(got.b, want[2], 1e-5);
  }
}

}  // namespace
}  // namespace dtrain::data
