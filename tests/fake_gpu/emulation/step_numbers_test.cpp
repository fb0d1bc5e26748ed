// The kernels of a step's single numbers against the functions of the CPU.

#include "kernels/step_numbers.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "emulation/orders.h"
#include "kernels/unscale.h"

namespace dtrain::kernels {
namespace {

class StepNumbers : public emulation::InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Emulated, StepNumbers, emulation::kOrders);

struct Scaler {
  float scale = 1024, found_inf = 0, taken = 0, factor32 = 0;
  int32_t growth_tracker = 0;
  int64_t skipped = 0;
  double weight = 0, factor = 0;

  ScalerNumbers numbers() {
    return {&scale, &growth_tracker, &found_inf, &taken, &skipped, &weight, &factor, &factor32};
  }
  bool operator==(const Scaler&) const = default;
};

TEST_P(StepNumbers, ScaleAsOnTheCpu) {
  const ScalerRule rule{.changes = true, .growth_interval = 2};
  Scaler cpu, gpu;
  for (const double weight : {8.0, 24.0, 0.0, 1e-60, 7.0, 9.0}) {
    cpu.weight = gpu.weight = weight;
    find_factor(cpu.numbers(), 32);
    ASSERT_EQ(find_factor_on_gpu(gpu.numbers(), 32, nullptr), 0);
    EXPECT_EQ(cpu, gpu);
    end_scaled_step(cpu.numbers(), rule);
    ASSERT_EQ(end_scaled_step_on_gpu(gpu.numbers(), rule, nullptr), 0);
    EXPECT_EQ(cpu, gpu);
  }
  EXPECT_EQ(cpu.skipped, 1) << "the factor of 1e-60 is no float";
  EXPECT_EQ(cpu.scale, 2048) << "grown, halved and grown again";
}

template <typename T>
void compare_records(int64_t samples, const std::vector<int64_t>& bad) {
  constexpr T kValues[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                           -std::numeric_limits<T>::infinity()};
  std::vector<T> losses;
  std::vector<int64_t> ids;
  double sum = 1;
  for (int64_t i = 0; i < samples; ++i) {
    ids.push_back(1000 + i);
    losses.push_back(static_cast<T>(i) + T(0.5));
    sum += static_cast<double>(i) + 0.5;
  }
  for (size_t k = 0; k < bad.size(); ++k)
    losses[static_cast<size_t>(bad[k])] = kValues[k % std::size(kValues)];
  std::array<int64_t, 2 + kNamedSamples> expected = {}, found = {};
  for (int time = 0; time < 2; ++time) {  // the second changes nothing
    note_bad_losses(LossesOfSamples<T>{losses.data(), ids.data(), samples, expected.data()});
    const double weight = 4;
    const float scale = 1024;
    std::array<double, 2> sums = {1, 2};
    std::vector<T> gradient(losses.size());
    ASSERT_EQ(note_losses_on_gpu(NotedLosses<T>{{losses.data(), ids.data(), samples, found.data()},
                                                sums.data(),
                                                /*weight=*/3,
                                                /*weight_on_device=*/time == 0 ? nullptr : &weight,
                                                &scale,
                                                /*power=*/0.25,
                                                gradient.data()},
                                 nullptr),
              0);
    EXPECT_EQ(expected, found) << samples;
    EXPECT_EQ(sums[1], time == 0 ? 5 : 6);
    EXPECT_EQ(gradient, std::vector<T>(losses.size(), 256));
    if (bad.empty())
      EXPECT_EQ(sums[0], sum);
    else
      EXPECT_FALSE(std::isfinite(sums[0]));
    EXPECT_EQ(found[0], static_cast<int64_t>(bad.size()));
    if (!bad.empty()) losses[0] = kValues[0];
  }
}

TEST_P(StepNumbers, RecordTheSamplesOfTheCpu) {
  compare_records<float>(0, {});
  compare_records<float>(5, {});
  compare_records<double>(700, {});
  compare_records<float>(5, {1, 4});
  compare_records<double>(700, {3, 256, 511, 512, 699});
  std::vector<int64_t> many;
  for (int64_t i = 10; i < 300; ++i) many.push_back(i);
  compare_records<float>(300, many);
}

// Buckets of several blocks, of a few elements, and at an address that is not one of 16 bytes.
TEST_P(StepNumbers, UnscaleAllBucketsInOnePass) {
  for (const bool overflows : {false, true}) {
    std::vector<std::vector<float>> buckets = {std::vector<float>(20001), std::vector<float>(8192),
                                               std::vector<float>(3)};
    std::vector<std::vector<float>> expected = buckets;
    Scaler cpu, gpu;
    cpu.weight = gpu.weight = 12;
    find_factor(cpu.numbers(), 4);
    FlatGradients of;
    double squares = 0;
    for (size_t b = 0; b < buckets.size(); ++b) {
      const size_t skipped = b == 1 ? 1 : 0;
      for (size_t i = 0; i < buckets[b].size(); ++i) {
        buckets[b][i] = static_cast<float>((i * 7 + b) % 31) - 15;
        expected[b][i] = i < skipped ? buckets[b][i] : buckets[b][i] * cpu.factor32;
        if (i >= skipped) squares += double{expected[b][i]} * double{expected[b][i]};
      }
      of.add(buckets[b].data() + skipped, static_cast<int64_t>(buckets[b].size() - skipped));
    }
    if (overflows) buckets[0][20000] = std::numeric_limits<float>::infinity();
    std::vector<double> partial(static_cast<size_t>(of.blocks()));
    EXPECT_EQ(partial.size(), 3u + 1 + 1);
    float norm = 0;
    ASSERT_EQ(unscale_on_gpu(of, gpu.numbers(), 4, partial.data(), &norm, nullptr), 0);
    EXPECT_EQ(gpu.found_inf, overflows ? 1 : 0);
    EXPECT_EQ(gpu.taken, overflows ? 0 : 1);
    EXPECT_EQ(gpu.factor, cpu.factor);
    if (overflows) continue;
    EXPECT_EQ(buckets, expected);
    EXPECT_FLOAT_EQ(norm, static_cast<float>(std::sqrt(squares)));
  }
}

}  // namespace
}  // namespace dtrain::kernels
