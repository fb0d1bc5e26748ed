// The kernels of additive attention against the loops of the CPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "emulation/orders.h"
#include "kernels/additive_attention.h"

namespace dtrain::kernels {
namespace {

class Attention : public emulation::InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Emulated, Attention, emulation::kOrders);

template <typename Number>
std::vector<Number> draw(std::mt19937& random, int64_t count, double low, double high) {
  std::uniform_real_distribution<double> between(low, high);
  std::vector<Number> values(static_cast<size_t>(count));
  for (Number& value : values) value = static_cast<Number>(between(random));
  return values;
}

template <typename Number>
struct Example {
  int64_t steps, samples, hidden;
  std::vector<Number> keys, queries, v, scale;
  std::vector<int64_t> order, lengths;

  Example(int64_t t, int64_t b, int64_t h) : steps(t), samples(b), hidden(h) {
    std::mt19937 random(3);
    keys = draw<Number>(random, t * b * h, -1, 1);
    queries = draw<Number>(random, t * b * h, -1, 1);
    v = draw<Number>(random, h, -2, 2);
    scale = draw<Number>(random, b, -1, 2);
    // Prepared rows of float32 are e^(2x).
    if constexpr (sizeof(Number) == 4) {
      for (std::vector<Number>* rows : {&keys, &queries})
        for (Number& x : *rows) x = std::exp(2 * x);
    }
    for (int64_t sample = 0; sample < b; ++sample) {
      const int64_t drawn = static_cast<int64_t>(random() % static_cast<uint64_t>(t + 1));
      lengths.push_back(sample == 0 ? t : sample == 1 ? 0 : sample == 2 ? t + 5 : drawn);
      for (int64_t step = 0; step < t; ++step) order.push_back(step);
      std::shuffle(order.end() - t, order.end() - t + std::min(lengths.back(), t), random);
    }
  }

  AttentionProblem<Number> problem() const {
    return {.steps = steps,
            .samples = samples,
            .hidden = hidden,
            .keys = keys.data(),
            .queries = queries.data(),
            .v = v.data(),
            .order = order.data(),
            .lengths = lengths.data()};
  }
};

// Results, begun with a number that no result has.
template <typename Number>
struct Results {
  std::vector<Number> residual, nll, keys, queries, v;

  explicit Results(const Example<Number>& e) {
    const auto size = [](int64_t count) { return static_cast<size_t>(count); };
    residual.assign(size(e.samples * e.steps * e.steps), 7);
    nll.assign(size(e.samples * e.steps), 7);
    for (auto* rows : {&keys, &queries, &v}) rows->assign(size(e.steps * e.samples * e.hidden), 7);
  }
};

// The sums of the values of each column.
template <typename Number>
std::vector<Number> sum_rows(const std::vector<Number>& values, int64_t columns) {
  std::vector<Number> sums(static_cast<size_t>(columns));
  for (size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i];
  return sums;
}

template <typename Number>
void expect_near(const std::vector<Number>& got, const std::vector<Number>& expected,
                 double tolerance, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 1e-3, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    ASSERT_TRUE(std::isfinite(got[i]) && std::isfinite(expected[i])) << what << " " << i;
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    worst = std::max(worst, std::abs(static_cast<double>(got[i] - expected[i])));
  }
  EXPECT_LE(worst, tolerance * largest) << what;
}

template <typename Number>
Results<Number> compute_on_gpu(const Example<Number>& e) {
  Results<Number> out(e);
  EXPECT_EQ(attention_forward_on_gpu(e.problem(), out.residual.data(), out.nll.data(), nullptr), 0);
  EXPECT_EQ(attention_backward_on_gpu(e.problem(), out.residual.data(), e.scale.data(),
                                      out.keys.data(), out.queries.data(), out.v.data(), nullptr),
            0);
  return out;
}

template <typename Number>
void compare(const Example<Number>& e, double tolerance) {
  Results<Number> cpu(e);
  attention_forward_on_cpu(e.problem(), 0, e.samples, cpu.residual.data(), cpu.nll.data());
  attention_backward_on_cpu(e.problem(), 0, e.samples, cpu.residual.data(), e.scale.data(),
                            cpu.keys.data(), cpu.queries.data(), cpu.v.data());
  const Results<Number> gpu = compute_on_gpu(e);
  expect_near(gpu.residual, cpu.residual, tolerance, "residual");
  expect_near(gpu.keys, cpu.keys, tolerance, "keys");
  expect_near(gpu.queries, cpu.queries, tolerance, "queries");
  // On the CPU nll is per sample, and v too.
  std::vector<Number> nll;
  for (int64_t sample = 0; sample < e.samples; ++sample) {
    const auto begin = gpu.nll.begin() + sample * e.steps;
    nll.push_back(sum_rows(std::vector<Number>(begin, begin + e.steps), 1)[0]);
  }
  cpu.nll.resize(static_cast<size_t>(e.samples));
  cpu.v.resize(static_cast<size_t>(e.samples * e.hidden));
  expect_near(nll, cpu.nll, tolerance, "nll");
  expect_near(sum_rows(gpu.v, e.hidden), sum_rows(cpu.v, e.hidden), tolerance, "v");
}

TEST_P(Attention, HasTheNumbersOfTheCpu) {
  compare(Example<float>(20, 7, 40), 2e-5);
  compare(Example<float>(1, 3, 5), 2e-5);
  compare(Example<float>(50, 6, 64), 2e-5);
  compare(Example<double>(33, 8, 129), 1e-12);
}

TEST_P(Attention, StopsAtAnImpossibleStepAsTheCpuDoes) {
  Example<float> e(20, 7, 40);
  e.order[5 * 20] = e.order[5 * 20 + 1];  // an element twice
  e.order[4 * 20 + 2] = 27;               // one that there is not
  e.lengths[4] = e.lengths[5] = 20;
  compare(e, 2e-5);
}

TEST_P(Attention, HasTheSameBitsInEachOrder) {
  const Example<float> e(20, 7, 40);
  const Results<float> here = compute_on_gpu(e);
  emulation::set_order(emulation::kAscending);
  const Results<float> first = compute_on_gpu(e);
  EXPECT_EQ(here.residual, first.residual);
  EXPECT_EQ(here.nll, first.nll);
  EXPECT_EQ(here.keys, first.keys);
  EXPECT_EQ(here.queries, first.queries);
  EXPECT_EQ(here.v, first.v);
}

}  // namespace
}  // namespace dtrain::kernels
