// The kernels of augmentation make the bits that the CPU makes.

#include <cstdint>
#include <random>
#include <vector>

#include "data/augment/augment_cuda.h"
#include "data/augment/augmenter.h"
#include "emulation/orders.h"

namespace dtrain::data {
namespace {

class Augmentation : public emulation::InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Emulated, Augmentation, emulation::kOrders);

constexpr int64_t kSamples = 4;

std::vector<SampleAugment> draw_augments(int side, std::mt19937& random) {
  std::uniform_real_distribution<float> share(0, 1);
  std::vector<SampleAugment> augments(kSamples);
  const auto length = static_cast<float>(side);
  for (size_t i = 0; i < kSamples; ++i) {
    augments[i].y = 3 * share(random);
    augments[i].x = 2 * share(random);
    augments[i].height = length * (0.7f + 0.3f * share(random));
    augments[i].width = length * (0.7f + 0.3f * share(random));
    augments[i].flip = i % 2 != 0;
    augments[i].brightness = i == 3 ? 1 : 0.6f + share(random);
    augments[i].contrast = i == 0 ? 1 : 0.6f + share(random);
    augments[i].saturation = 0.6f + share(random);
    augments[i].hue = i == 1 ? 0 : share(random) - 0.5f;
  }
  return augments;
}

TEST_P(Augmentation, HasTheBitsOfTheCpu) {
  std::mt19937 random(5);
  for (const int side : {3, 24, 64, 224}) {
    SCOPED_TRACE(side);
    SampleSpec spec;
    spec.image_size = side;
    const ImageShape shape{side + 17, side + 5};
    std::vector<uint8_t> images(static_cast<size_t>(kSamples * shape.bytes()));
    for (uint8_t& byte : images) byte = static_cast<uint8_t>(random());
    const std::vector<SampleAugment> augments = draw_augments(side, random);
    const auto floats = static_cast<size_t>(3 * side * side);
    std::vector<float> out(kSamples * floats, 7), expected(out.size(), 8);
    std::vector<uint64_t> sums(kSamples, 99);
    const AugmentBatch batch{.images = images.data(),
                             .augments = augments.data(),
                             .samples = kSamples,
                             .shape = shape,
                             .side = side,
                             .norm = normalization(spec),
                             .grey_sums = sums.data(),
                             .out = out.data()};
    ASSERT_EQ(augment(batch, nullptr), cudaSuccess);
    Augmenter on_cpu(spec, shape);
    for (size_t i = 0; i < kSamples; ++i) {
      on_cpu(images.data() + static_cast<int64_t>(i) * shape.bytes(), augments[i],
             expected.data() + i * floats);
    }
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace dtrain::data
