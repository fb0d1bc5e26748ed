// The kernels that draw by key - dropout, noise, teacher forcing - against the functions that say
// what is drawn.

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <random>
#include <vector>

#include "emulation/orders.h"
#include "kernels/dropout_mask.h"
#include "kernels/masked_noise.h"
#include "kernels/teacher_forcing.h"

namespace dtrain::kernels {
namespace {

class Draws : public emulation::InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Emulated, Draws, emulation::kOrders);

size_t size(int64_t count) { return static_cast<size_t>(count); }

template <typename T>
void compare_dropout(int64_t samples, int64_t elements) {
  constexpr int64_t kLayer = 3;
  constexpr float kShare = 0.3f;
  std::vector<int64_t> ids(size(samples), int64_t{1} << 40);
  for (int64_t i = 1; i < samples; ++i) ids[size(i)] = 7 * i % 99;
  const int64_t seed = -5, step = 12;
  const DropoutKeyPlace key{&seed, &step, kLayer};
  const T kept(1.5f);
  std::vector<T> mask(size(samples * elements), T(9)), expected;
  ASSERT_EQ(fill_dropout_mask_on_gpu(key, kShare, ids.data(), samples, elements, kept, mask.data(),
                                     nullptr),
            0);
  for (const int64_t id : ids) {
    const uint64_t sample = sample_key(key.read(), id);
    for (int64_t e = 0; e < elements; ++e)
      expected.push_back(keeps(sample, e, kShare) ? kept : T(0));
  }
  EXPECT_TRUE(mask == expected);  // a million numbers are not worth printing
}

TEST_P(Draws, DropoutKeepsWhatItsKeysKeep) {
  compare_dropout<float>(5, 3000);
  compare_dropout<double>(5, 3000);
  compare_dropout<c10::Half>(5, 3000);
  compare_dropout<c10::BFloat16>(5, 3000);
}

// Of a million threads, and of 65535 rows.
TEST(Dropout, GoesOnBeyondItsGrid) {
  compare_dropout<float>(5, 220000);
  compare_dropout<float>(65540, 2);
}

template <typename T>
void compare_noise() {
  constexpr int64_t kSamples = 4, kLongest = 37, kFeatures = 3;
  const std::vector<int64_t> ids = {1, 2, 3, 400}, lengths = {37, 0, 50, 9};
  const int64_t seed = 11, epoch = 2;
  const MaskedNoise how{.noise = 0.1f, .share = 0.4f, .span = 4};
  std::mt19937 random(2);
  std::uniform_real_distribution<double> between(-1, 1);
  std::vector<T> rows(size(kSamples * kLongest * kFeatures));
  for (T& value : rows) value = static_cast<T>(between(random));
  // The kernel writes all rows.
  std::vector<T> out(rows.size(), T(9)), expected(rows.size());
  std::vector<char> hidden(size(kSamples * kLongest), 1), expected_hidden(hidden.size());
  const NoiseBatch<T> batch{.rows = rows.data(),
                            .lengths = lengths.data(),
                            .ids = ids.data(),
                            .seed = &seed,
                            .epoch = &epoch,
                            .samples = kSamples,
                            .longest = kLongest,
                            .features = kFeatures,
                            .out = out.data(),
                            .hidden = reinterpret_cast<bool*>(hidden.data())};
  ASSERT_EQ(hide_and_noise_on_gpu(how, batch, nullptr), 0);
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const HiddenBlocks blocks =
        hidden_blocks(how, batch.key(), ids[size(sample)], batch.length(sample));
    for (int64_t row = 0; row < batch.length(sample); ++row) {
      const int64_t at = sample * kLongest + row;
      expected_hidden[size(at)] = is_hidden(how, blocks, row);
      for (int64_t f = 0; f < kFeatures && !expected_hidden[size(at)]; ++f) {
        const size_t e = size(at * kFeatures + f);
        expected[e] = noised(how, blocks, rows[e], row * kFeatures + f);
      }
    }
  }
  EXPECT_EQ(out, expected);
  EXPECT_EQ(hidden, expected_hidden);
}

TEST_P(Draws, NoiseHidesWhatItsKeysHide) {
  compare_noise<float>();
  compare_noise<double>();
}

TEST_P(Draws, TeacherForcingIsThatOfItsKeys) {
  constexpr int64_t kSamples = 700;
  const int64_t seed = 3, epoch = 1;
  const TeacherForcing forcing{.first = 1, .last = 0.2, .epochs = 4};
  const ForcingPlace place{&seed, &epoch};
  std::vector<int64_t> ids;
  std::vector<char> forced(size(kSamples), 5), expected;
  for (int64_t i = 0; i < kSamples; ++i) {
    ids.push_back(3 * i);
    expected.push_back(place.draw(forcing, 3 * i) ? 1 : 0);
  }
  ASSERT_EQ(draw_forced_on_gpu(forcing, place, ids.data(), kSamples,
                               reinterpret_cast<bool*>(forced.data()), nullptr),
            0);
  EXPECT_EQ(forced, expected);
}

}  // namespace
}  // namespace dtrain::kernels
