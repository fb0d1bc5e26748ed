// The search for the largest batch, over made oracles: memory that grows with the batch as it is,
// with noise, in steps, or not known.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.h"
#include "support/expect_error.h"
#include "tune/largest_batch.h"
#include "tune/memory_stage.h"

namespace dtrain::tune {
namespace {

using dtrain::testing::expect_error;

struct Made {
  double fixed = 0, sample = 1;  // bytes
  double limit = 100;
  double noise = 0;            // share
  bool tells_failures = true;  // a batch that does not fit says what it used
  std::mt19937 random{1};

  int64_t truth(int64_t most) const {
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor((limit - fixed) / sample)), 0, most);
  }
  BatchTrial operator()(int64_t batch) {
    double bytes = fixed + sample * static_cast<double>(batch);
    if (noise > 0) bytes *= 1 + noise * std::uniform_real_distribution<>(-1, 1)(random);
    const bool fits = bytes <= limit;
    return {.batch = batch, .fits = fits, .bytes = fits || tells_failures ? bytes : std::nan("")};
  }
};

LargestBatch search(Made& made, int64_t start, int64_t most) {
  return find_largest_batch({.start = start, .most = most, .limit_bytes = made.limit},
                            [&](int64_t batch) { return std::optional(made(batch)); });
}

void expect_found(const LargestBatch& found, int64_t truth, int64_t most, const char* what) {
  EXPECT_LE(found.batch, truth) << what;
  EXPECT_GE(found.batch + std::max<int64_t>(1, truth / 16), truth) << what;
  EXPECT_EQ(found.end, truth == most ? LargestBatch::End::kMost : LargestBatch::End::kLimit)
      << what;
  if (truth > 0) {
    EXPECT_TRUE(std::ranges::any_of(
        found.trials, [&](const BatchTrial& t) { return t.batch == found.batch && t.fits; }))
        << what << ": the result was tried";
  }
}

TEST(LargestBatch, IsFoundFromAnyStart) {
  for (const int64_t most : {int64_t{1}, int64_t{7}, int64_t{256}, int64_t{5000}}) {
    for (const int64_t truth :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{100}, int64_t{4999}}) {
      for (const int64_t start : {int64_t{1}, int64_t{8}, int64_t{32}, int64_t{4000}}) {
        for (const bool tells : {false, true}) {
          Made made{.fixed = 500, .sample = 10, .tells_failures = tells};
          made.limit = 500 + 10 * (static_cast<double>(truth) + 0.5);
          const std::string what =
              (::testing::Message() << "most " << most << " truth " << truth << " start " << start)
                  .GetString();
          const LargestBatch found = search(made, start, most);
          expect_found(found, std::min(truth, most), most, what.c_str());
          EXPECT_LE(found.trials.size(), 28u) << what;
        }
      }
    }
  }
}

TEST(LargestBatch, TakesFewTrialsWhereMemoryIsALine) {
  for (const int64_t truth : {40, 77, 300, 1234, 4000}) {
    Made made{.fixed = 400e6, .sample = 3e6};
    made.limit = made.fixed + made.sample * (static_cast<double>(truth) + 0.5);
    const LargestBatch found = search(made, 32, 5000);
    expect_found(found, truth, 5000, "a line");
    EXPECT_LE(found.trials.size(), 7u) << truth;
  }
}

TEST(LargestBatch, ClimbsFasterWithTheBytesOfASample) {
  for (const double told : {3e6, 1e6, 9e6}) {  // of the tensors: without what libraries take
    Made made{.fixed = 400e6, .sample = 3e6};
    made.limit = made.fixed + made.sample * 1234.5;
    const LargestBatch found = find_largest_batch(
        {.start = 4, .most = 5000, .limit_bytes = made.limit}, [&](int64_t batch) {
          BatchTrial trial = made(batch);
          trial.sample_bytes = told;
          return std::optional(trial);
        });
    expect_found(found, 1234, 5000, "told");
    EXPECT_LE(found.trials.size(), 6u) << told;
  }
}

TEST(LargestBatch, StandsNoise) {
  size_t trials = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Made made{.fixed = 400,
              .sample = 3,
              .limit = 400 + 3 * 500.5,
              .noise = 0.02,
              .random = std::mt19937(seed)};
    const LargestBatch found = search(made, 32, 5000);
    EXPECT_EQ(found.end, LargestBatch::End::kLimit);
    // 2 % of 1900 bytes are 13 samples.
    EXPECT_NEAR(static_cast<double>(found.batch), 500, 500.0 / 16 + 14) << seed;
    trials += found.trials.size();
  }
  EXPECT_LE(trials, 200u * 9);
}

TEST(LargestBatch, StandsMemoryThatIsNoLine) {
  // A library takes another algorithm, with much more memory, from 64 samples on.
  const auto bytes = [](int64_t batch) {
    return 100.0 + static_cast<double>(batch) * (batch < 64 ? 1 : 4);
  };
  const LargestBatch found =
      find_largest_batch({.start = 8, .most = 1000, .limit_bytes = 700}, [&](int64_t batch) {
        return std::optional(
            BatchTrial{.batch = batch, .fits = bytes(batch) <= 700, .bytes = bytes(batch)});
      });
  expect_found(found, 150, 1000, "a step");
}

TEST(LargestBatch, EndsWithWhatItHasWhenTheTimeIsOver) {
  Made made{.fixed = 0, .sample = 1, .limit = 1000};
  int left = 3;
  const LargestBatch found = find_largest_batch({.start = 8, .most = 5000, .limit_bytes = 0},
                                                [&](int64_t batch) -> std::optional<BatchTrial> {
                                                  if (left-- == 0) return std::nullopt;
                                                  return made(batch);
                                                });
  EXPECT_EQ(found.end, LargestBatch::End::kStopped);
  EXPECT_EQ(found.batch, 32) << "8, 16, 32";
  const LargestBatch none =
      find_largest_batch({.start = 8, .most = 10}, [](int64_t) { return std::nullopt; });
  EXPECT_EQ(none.batch, 0);
  EXPECT_TRUE(none.trials.empty());
}

// The first process of a search may run into its time limit.
TEST(LastTrial, IsNoneOfASearchWithoutTime) {
  const auto made = [](bool any, LargestBatch::End end) {
    LargestBatch search{.end = end};
    if (any) search.trials.push_back({.batch = 1, .why = "full"});
    return search;
  };
  EXPECT_EQ(last_trial(made(true, LargestBatch::End::kLimit)).why, "full");
  for (const bool any : {false, true}) {
    expect_error<Error>([&] { last_trial(made(any, LargestBatch::End::kStopped)); },
                        {"--minutes", "give more"});
  }
}

TEST(LargestBatch, TriesNoBatchTwice) {
  for (const int64_t truth : {0, 1, 5, 63, 64, 65, 999}) {
    Made made{.fixed = 7,
              .sample = 2,
              .limit = 7 + 2 * (static_cast<double>(truth) + 0.5),
              .noise = 0.01};
    const LargestBatch found = search(made, 16, 1000);
    std::vector<int64_t> batches;
    for (const BatchTrial& trial : found.trials) batches.push_back(trial.batch);
    std::sort(batches.begin(), batches.end());
    EXPECT_EQ(std::unique(batches.begin(), batches.end()), batches.end()) << truth;
  }
}

}  // namespace
}  // namespace dtrain::tune
