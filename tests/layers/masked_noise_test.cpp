#include "layers/masked_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"

namespace dtrain::layers {
namespace {

using kernels::keyed_normal;

constexpr int64_t kFeatures = 3;
constexpr uint64_t kSeed = 4;
constexpr int64_t kEpoch = 2;
const MaskedNoise kBoth{.noise = 0.5f, .share = 0.3f, .span = 4};

NoisedRows run(const MaskedNoise& m, const std::vector<int64_t>& lengths,
               const std::vector<int64_t>& ids, int64_t longest, at::ScalarType dtype = at::kFloat,
               uint64_t seed = kSeed, int64_t epoch = kEpoch) {
  const at::Tensor rows = at::ones({static_cast<int64_t>(ids.size()), longest, kFeatures}, dtype);
  return hide_and_noise(rows, at::tensor(lengths, at::kLong),
                        random_context(seed, /*step=*/0, at::tensor(ids, at::kLong), epoch), m);
}

TEST(KeyedNormal, HasTheMomentsOfANormalDistribution) {
  constexpr int64_t kDraws = 400000;
  double sums[5] = {};
  for (int64_t e = 0; e < kDraws; ++e) {
    double power = 1;
    for (double& sum : sums) sum += power, power *= keyed_normal(99, e);
  }
  EXPECT_NEAR(sums[1] / kDraws, 0, 0.008);  // 5 standard errors
  EXPECT_NEAR(sums[2] / kDraws, 1, 0.011);
  EXPECT_NEAR(sums[3] / kDraws, 0, 0.03);
  EXPECT_NEAR(sums[4] / kDraws, 3 - 0.15, 0.07);
}

TEST(KeyedNormal, DrawsAreUncorrelated) {
  double neighbours = 0, keys = 0;
  constexpr int64_t kDraws = 100000;
  for (int64_t e = 0; e < kDraws; ++e) {
    neighbours += keyed_normal(7, e) * keyed_normal(7, e + 1);
    keys += keyed_normal(7, e) * keyed_normal(8, e);
  }
  EXPECT_NEAR(neighbours / kDraws, 0, 0.016);
  EXPECT_NEAR(keys / kDraws, 0, 0.016);
}

TEST(MaskedNoise, DoesNotDependOnBatchOrPadding) {
  const NoisedRows together = run(kBoth, {9, 30, 1, 17}, {5, 6, 7, 8}, 30);
  const NoisedRows alone = run(kBoth, {17}, {8}, 40);
  EXPECT_TRUE(at::equal(together.rows[3].slice(0, 0, 17), alone.rows[0].slice(0, 0, 17)));
  EXPECT_TRUE(at::equal(together.hidden[3].slice(0, 0, 17), alone.hidden[0].slice(0, 0, 17)));
}

TEST(MaskedNoise, LeavesThePaddingZero) {
  const NoisedRows result = run(kBoth, {9, 30}, {5, 6}, 30);
  EXPECT_EQ(result.rows[0].slice(0, 9).abs().sum().item<double>(), 0);
  EXPECT_FALSE(result.hidden[0].slice(0, 9).any().item<bool>());
}

TEST(MaskedNoise, HidesWholeRowsInSpansAndAtLeastOneOfEachSample) {
  MaskedNoise m = kBoth;
  m.share = 0;
  m.noise = 0;
  std::set<int64_t> starts;
  for (int64_t id = 0; id < 200; ++id) {
    const int64_t length = 1 + id % 23;
    const NoisedRows result = run(m, {length}, {id}, 23);
    const at::Tensor hidden = result.hidden[0].nonzero().squeeze(1);
    const int64_t count = hidden.numel();
    ASSERT_GE(count, 1) << id;
    ASSERT_LE(count, 4) << id;
    EXPECT_EQ(hidden[count - 1].item<int64_t>() - hidden[0].item<int64_t>(), count - 1)
        << "one span";
    const at::Tensor seen =
        result.hidden[0].slice(0, 0, length).logical_not().to(at::kFloat).unsqueeze(1);
    EXPECT_TRUE(at::equal(result.rows[0].slice(0, 0, length), seen.expand({length, kFeatures})));
    starts.insert(hidden[0].item<int64_t>());
  }
  EXPECT_GT(starts.size(), 12u) << "anywhere";
}

TEST(MaskedNoise, HidesTheGivenShare) {
  MaskedNoise m = kBoth;
  double hidden = 0;
  for (int64_t id = 0; id < 400; ++id)
    hidden += run(m, {400}, {id}, 400).hidden.sum().item<double>();
  const double blocks = 400.0 / 4 + 0.75;  // the offset is random
  EXPECT_NEAR(hidden / (400 * 400), 0.3 + 0.7 / blocks, 0.01);
}

TEST(MaskedNoise, ChangesWithSeedEpochAndSample) {
  const auto rows = [](uint64_t seed, int64_t epoch, int64_t id) {
    return run(kBoth, {20}, {id}, 20, at::kFloat, seed, epoch).rows;
  };
  const at::Tensor base = rows(1, 0, 0);
  EXPECT_TRUE(at::equal(base, rows(1, 0, 0)));
  for (const at::Tensor& other : {rows(2, 0, 0), rows(1, 1, 0), rows(1, 0, 1)})
    EXPECT_FALSE(at::equal(base, other));
}

// What any run has drawn with this key: which of twelve rows are hidden, and the noise of the first
// one that is not.
TEST(MaskedNoise, DrawsWhatItHasAlwaysDrawn) {
  const NoisedRows result = run(kBoth, {12}, {5}, 12);
  const at::Tensor bits =
      result.hidden[0].to(at::kLong).mul_(at::pow(2, at::arange(12, at::kLong))).sum();
  EXPECT_EQ(bits.item<int64_t>(), 1920);
  EXPECT_EQ(result.rows[0][0][0].item<float>(), 1.13197577f);
}

TEST(MaskedNoise, ReadsTheNumbersOfItsKeyInEachStep) {
  const at::Tensor rows = at::ones({2, 20, kFeatures}), lengths = at::tensor({20, 11}, at::kLong);
  const RandomContext key = random_context(kSeed, 0, at::tensor({5, 6}, at::kLong), kEpoch);
  const at::Tensor first = hide_and_noise(rows, lengths, key, kBoth).rows;
  EXPECT_TRUE(at::equal(first, run(kBoth, {20, 11}, {5, 6}, 20).rows));
  key.epoch.fill_(3);
  const at::Tensor second = hide_and_noise(rows, lengths, key, kBoth).rows;
  EXPECT_FALSE(at::equal(first, second));
  EXPECT_TRUE(at::equal(second, run(kBoth, {20, 11}, {5, 6}, 20, at::kFloat, kSeed, 3).rows));
}

TEST(MaskedNoise, InDoublePrecisionIsTheSameNoise) {
  const NoisedRows a = run(kBoth, {20}, {3}, 20), b = run(kBoth, {20}, {3}, 20, at::kDouble);
  EXPECT_EQ(b.rows.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(a.hidden, b.hidden));
  EXPECT_TRUE(at::allclose(a.rows.to(at::kDouble), b.rows, 1e-6, 1e-6));
}

TEST(MaskedNoise, KeepsLengthsWithinTheRows) {
  MaskedNoise m = kBoth;
  for (const int32_t span : {1, 4}) {
    m.span = span;
    const NoisedRows odd = run(m, {0, -3, 25, 20}, {5, 6, 7, 8}, 20),
                     even = run(m, {20, 20}, {7, 8}, 20);
    EXPECT_FALSE(odd.hidden.slice(0, 0, 2).any().item<bool>());
    EXPECT_EQ(odd.rows.slice(0, 0, 2).abs().sum().item<double>(), 0);
    EXPECT_TRUE(at::equal(odd.rows.slice(0, 2), even.rows));
  }
}

TEST(MaskedNoise, RejectsInvalidInputs) {
  EXPECT_THROW(run(kBoth, {20, 3}, {3}, 20), Error);
  MaskedNoise m = kBoth;
  m.span = 0;
  EXPECT_THROW(run(m, {20}, {3}, 20), Error);
}

}  // namespace
}  // namespace dtrain::layers
