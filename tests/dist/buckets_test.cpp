#include "dist/buckets.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/random.h"

namespace dtrain::dist {
namespace {

int64_t bytes(const ParamInfo& param) {
  return param.elements * static_cast<int64_t>(c10::elementSize(param.dtype));
}
int64_t bytes(const Bucket& bucket) {
  return bucket.elements * static_cast<int64_t>(c10::elementSize(bucket.dtype));
}

TEST(Buckets, TakesParametersFromTheLastAndClosesTheFirstEarly) {
  const std::vector<ParamInfo> params = {{64}, {64}, {16}, {16}, {16}};
  const auto buckets = plan_buckets(params, 64 * 4, 32 * 4);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].params, (std::vector<size_t>{4, 3}));
  EXPECT_EQ(buckets[0].offsets, (std::vector<int64_t>{0, 16}));
  EXPECT_EQ(buckets[1].params,
            (std::vector<size_t>{2}));  // with the one before it would pass the cap
  EXPECT_EQ(buckets[2].params, (std::vector<size_t>{1}));
  EXPECT_EQ(buckets[3].params, (std::vector<size_t>{0}));
}

TEST(Buckets, AlignsEachParameterToACacheLine) {
  const std::vector<ParamInfo> params = {{3}, {17}, {1}};
  const auto buckets = plan_buckets(params, 1 << 20, 1 << 20);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].offsets, (std::vector<int64_t>{0, 16, 48}));
  EXPECT_EQ(buckets[0].elements, 51);
}

TEST(Buckets, AParameterLargerThanTheCapIsABucketOfItsOwn) {
  const std::vector<ParamInfo> params = {{4}, {1000}, {4}};
  const auto buckets = plan_buckets(params, 256, 256);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[1].params, (std::vector<size_t>{1}));
  EXPECT_EQ(buckets[1].elements, 1000);
}

TEST(Buckets, KeepsDtypesApartInTheOrderInWhichTheyFill) {
  const std::vector<ParamInfo> params = {{8, at::kFloat}, {8, at::kDouble}, {8, at::kFloat}};
  const auto buckets = plan_buckets(params, 1 << 20, 1 << 20);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].params, (std::vector<size_t>{1}));  // it is done before the first
  EXPECT_EQ(buckets[0].dtype, at::kDouble);
  EXPECT_EQ(buckets[1].params, (std::vector<size_t>{2, 0}));
}

TEST(Buckets, TheBestSizeMakesTheLatencyOfAllAndTheLastTransferShortestTogether) {
  const auto total = [](const CostFit& cost, double bytes, double size) {
    return bytes / size * cost.latency + size * cost.seconds_per_byte;
  };
  for (const double latency : {2e-6, 5e-5, 1e-3}) {
    for (const double per_byte : {5e-12, 2e-10, 1e-8}) {
      for (const int64_t bytes : {int64_t{1} << 20, int64_t{45} << 20, int64_t{2} << 30}) {
        const CostFit cost{.latency = latency, .seconds_per_byte = per_byte};
        const int64_t size = best_bucket_bytes(cost, bytes);
        EXPECT_EQ(size & (size - 1), 0) << "a power of two";
        for (int64_t other = 256 << 10; other <= 128 << 20; other *= 2) {
          EXPECT_LE(
              total(cost, static_cast<double>(bytes), static_cast<double>(size)),
              total(cost, static_cast<double>(bytes), static_cast<double>(other)) * (1 + 1e-9));
        }
      }
    }
  }
  EXPECT_EQ(best_bucket_bytes({.latency = 1e-5}, 1 << 20), 128 << 20) << "bytes cost nothing";
  EXPECT_EQ(best_bucket_bytes({.seconds_per_byte = 1e-9}, 1 << 20), 256 << 10)
      << "messages cost nothing";
  EXPECT_EQ(best_bucket_bytes({}, 1 << 20), 25 << 20) << "the cost is unknown";
}

TEST(Buckets, NoParametersMakeNoBuckets) { EXPECT_TRUE(plan_buckets({}, 1, 1).empty()); }

TEST(Buckets, KeepsItsPromisesForAnyList) {
  const at::ScalarType dtypes[] = {at::kFloat, at::kFloat, at::kDouble, at::kBFloat16};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    auto draw = [&, n = uint64_t{0}](uint64_t below) mutable { return keyed(seed, n++) % below; };
    std::vector<ParamInfo> params(draw(40));
    for (auto& param : params) param = {static_cast<int64_t>(draw(400)), dtypes[draw(4)]};
    const auto cap = static_cast<int64_t>(draw(2000)), first = static_cast<int64_t>(draw(800));
    const auto buckets = plan_buckets(params, cap, first);

    std::vector<int> seen(params.size());
    size_t last_end = params.size();
    for (const Bucket& bucket : buckets) {
      ASSERT_FALSE(bucket.params.empty());
      ASSERT_EQ(bucket.params.size(), bucket.offsets.size());
      if (bucket.params.size() > 1) {
        ASSERT_LE(bytes(bucket), std::max(cap, first)) << "seed " << seed;
      }
      int64_t end = 0;
      size_t before = params.size();
      for (size_t k = 0; k < bucket.params.size(); ++k) {
        const size_t index = bucket.params[k];
        ++seen[index];
        ASSERT_LT(index, before);  // from the last parameter to the first
        before = index;
        ASSERT_EQ(params[index].dtype, bucket.dtype);
        ASSERT_EQ(bucket.offsets[k] * static_cast<int64_t>(c10::elementSize(bucket.dtype)) % 64, 0);
        ASSERT_GE(bucket.offsets[k], end);  // no overlap
        end = bucket.offsets[k] + params[index].elements;
      }
      ASSERT_EQ(bucket.elements, end);
      ASSERT_LT(bucket.params.back(), last_end);  // buckets in the order in which they fill
      last_end = bucket.params.back();
    }
    ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(params.size()))
        << "seed " << seed;

    // Buckets are as full as possible: within a dtype, no bucket had space for the first parameter
    // of the next one.
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      std::vector<const Bucket*> same;
      for (const Bucket& bucket : buckets) {
        if (bucket.dtype == dtype) same.push_back(&bucket);
      }
      std::sort(same.begin(), same.end(),
                [](auto* a, auto* b) { return a->params[0] > b->params[0]; });
      for (size_t k = 0; k + 1 < same.size(); ++k) {
        const bool is_first = same[k]->params[0] == params.size() - 1;
        ASSERT_GT(bytes(*same[k]) + bytes(params[same[k + 1]->params[0]]) + 63,
                  is_first ? first : cap);
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::dist
