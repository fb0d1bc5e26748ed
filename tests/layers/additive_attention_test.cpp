// Compares pointer_losses() with the same formula in ATen operators, which holds [B, T, T, H].

#include "layers/additive_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <limits>
#include <set>

#include "core/error.h"
#include "kernels/additive_attention.h"

namespace dtrain::layers {
namespace {

using kernels::AttentionStep;

struct Case {
  at::Tensor keys, queries, v;  // leaves
  at::Tensor order, lengths;
};

Case make_case(int64_t steps, int64_t batch, int64_t hidden, bool ragged, at::ScalarType type,
               double scale = 1) {
  at::manual_seed(11);
  const auto rows = at::TensorOptions().dtype(type);
  Case c;
  c.keys = (at::randn({steps, batch, hidden}, rows) * scale).requires_grad_();
  c.queries = (at::randn({steps, batch, hidden}, rows) * scale).requires_grad_();
  c.v = (at::randn({hidden}, rows) / std::sqrt(static_cast<double>(hidden))).requires_grad_();
  c.lengths =
      ragged ? at::randint(1, steps + 1, {batch}, at::kLong) : at::full({batch}, steps, at::kLong);
  c.order = at::full({batch, steps}, -1, at::kLong);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = c.lengths[b].item<int64_t>();
    c.order[b].slice(0, 0, length).copy_(at::randperm(length));
  }
  return c;
}

at::Tensor naive(const Case& c) {
  const int64_t steps = c.keys.size(0), batch = c.keys.size(1);
  const at::Tensor scores =
      at::matmul((c.keys.unsqueeze(0) + c.queries.unsqueeze(1)).tanh(), c.v).permute({2, 0, 1});
  at::Tensor closed = at::zeros({batch, steps, steps}, at::kBool);
  const at::Tensor valid = at::arange(steps).unsqueeze(0).lt(c.lengths.unsqueeze(1));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < steps; ++t) {
      closed[b][t].copy_(valid[b].logical_not());
      for (int64_t before = 0; before < std::min(t, c.lengths[b].item<int64_t>()); ++before) {
        closed[b][t][c.order[b][before].item<int64_t>()] = true;
      }
    }
  }
  const at::Tensor log_p = scores.masked_fill(closed, -1e30).log_softmax(2);
  return at::where(valid, -log_p.gather(2, c.order.clamp_min(0).unsqueeze(2)).squeeze(2),
                   at::zeros({}, c.v.options()))
      .sum(1);
}

std::vector<at::Tensor> gradients(const Case& c, const at::Tensor& losses) {
  const at::Tensor weights =
      at::arange(1, losses.size(0) + 1, losses.options().requires_grad(false));
  return torch::autograd::grad({(losses * weights).sum()}, {c.keys, c.queries, c.v});
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1)).item<double>();
}

void expect_like_naive(const Case& c, double tolerance) {
  const at::Tensor ours = pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths),
                   theirs = naive(c);
  EXPECT_LE(worst(ours, theirs), tolerance);
  const std::vector<at::Tensor> a = gradients(c, ours), b = gradients(c, theirs);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(worst(a[i], b[i]), tolerance) << "gradient " << i;
}

TEST(PointerLosses, EqualThoseOfTheNaiveFormInFloat64) {
  for (const bool ragged : {false, true}) {
    expect_like_naive(make_case(9, 5, 24, ragged, at::kDouble), 1e-13);
    expect_like_naive(make_case(1, 3, 7, ragged, at::kDouble), 1e-13);
  }
}

TEST(PointerLosses, EqualThoseOfTheNaiveFormInFloat32) {
  for (const int64_t hidden : {256, 37, 3}) {
    expect_like_naive(make_case(13, 6, hidden, true, at::kFloat), 5e-6);
    // Most tanh values are saturated
    expect_like_naive(make_case(13, 6, hidden, false, at::kFloat, 12), 5e-6);
  }
}

TEST(PointerLosses, GradientsAreThoseOfFiniteDifferences) {
  const Case c = make_case(5, 3, 6, true, at::kDouble);
  const auto loss = [&] {
    return pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths).sum().item<double>();
  };
  const auto analytic = torch::autograd::grad(
      {pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths).sum()}, {c.keys, c.queries, c.v});
  const std::vector<at::Tensor> inputs = {c.keys, c.queries, c.v};
  const double step = 1e-6;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto* values = inputs[i].data_ptr<double>();
    const at::Tensor expected = analytic[i].contiguous();
    for (int64_t e = 0; e < inputs[i].numel(); ++e) {
      const double value = values[e];
      values[e] = value + step;
      const double above = loss();
      values[e] = value - step;
      const double below = loss();
      values[e] = value;
      EXPECT_NEAR((above - below) / (2 * step), expected.const_data_ptr<double>()[e], 1e-8)
          << i << ", " << e;
    }
  }
}

TEST(PointerLosses, KeepLengthsWithinTheElements) {
  Case odd = make_case(6, 2, 5, false, at::kDouble), even = odd;
  odd.lengths = at::tensor({-2, 9}, at::kLong);
  even.lengths = at::tensor({0, 6}, at::kLong);
  const at::Tensor ours = pointer_losses(odd.keys, odd.queries, odd.v, odd.order, odd.lengths);
  EXPECT_TRUE(
      at::equal(ours, pointer_losses(even.keys, even.queries, even.v, even.order, even.lengths)));
  EXPECT_EQ(ours[0].item<double>(), 0);
}

TEST(PointerLosses, OfASampleDoNotDependOnBatchPaddingOrThreads) {
  const Case c = make_case(12, 7, 64, true, at::kFloat);
  const at::Tensor whole = pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(whole, pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths)));
  at::set_num_threads(threads);
  for (int64_t b = 0; b < 7; ++b) {
    const int64_t length = c.lengths[b].item<int64_t>();
    const at::Tensor alone = pointer_losses(c.keys.slice(0, 0, length).slice(1, b, b + 1),
                                            c.queries.slice(0, 0, length).slice(1, b, b + 1), c.v,
                                            c.order.slice(0, b, b + 1).slice(1, 0, length),
                                            c.lengths.slice(0, b, b + 1));
    EXPECT_TRUE(at::equal(alone, whole.slice(0, b, b + 1))) << b;
  }
}

TEST(PointerLosses, StayFiniteForAnyFiniteInputAndPassNaNOn) {
  Case c = make_case(6, 2, 32, false, at::kFloat, 1e4);
  const at::Tensor losses = pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths);
  EXPECT_TRUE(losses.isfinite().all().item<bool>());
  for (const at::Tensor& gradient : gradients(c, losses))
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  c.keys.data_ptr<float>()[5] = std::numeric_limits<float>::quiet_NaN();  // of sample 0
  const at::Tensor with_nan = pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths);
  EXPECT_TRUE(std::isnan(with_nan[0].item<float>()));
  EXPECT_EQ(with_nan[1].item<float>(), losses[1].item<float>());
}

TEST(PointerLosses, OfAnInvalidOrderAreInfinite) {
  for (const int64_t wrong : {int64_t{-1}, int64_t{6}, int64_t{100}}) {
    Case c = make_case(6, 2, 16, false, at::kFloat);
    c.order[1][4] = wrong;
    const at::Tensor losses = pointer_losses(c.keys, c.queries, c.v, c.order, c.lengths);
    EXPECT_TRUE(std::isfinite(losses[0].item<float>()));
    EXPECT_TRUE(std::isinf(losses[1].item<float>())) << wrong;
  }
  Case twice = make_case(6, 1, 16, false, at::kFloat);
  twice.order[0][3] = twice.order[0][1];
  EXPECT_TRUE(
      std::isinf(pointer_losses(twice.keys, twice.queries, twice.v, twice.order, twice.lengths)
                     .item<float>()));
}

// The gradients are those of the steps before the first impossible one.
TEST(PointerLosses, OfAnInvalidOrderHaveTheGradientsOfTheStepsBefore) {
  struct Wrong {
    int64_t step, element;
  };
  for (const auto& [step, element] : {Wrong{4, -1}, Wrong{4, 6}, Wrong{3, 0}, Wrong{0, 6}}) {
    Case whole = make_case(6, 2, 16, false, at::kDouble), cut = whole;
    whole.order[1].copy_(at::arange(6));
    cut.order = whole.order.clone();
    whole.order[1][step] = element;
    const std::vector<at::Tensor> found = gradients(
        whole, pointer_losses(whole.keys, whole.queries, whole.v, whole.order, whole.lengths));
    const at::Tensor scores =
        at::matmul((cut.keys.unsqueeze(0) + cut.queries.unsqueeze(1)).tanh(), cut.v)
            .permute({2, 0, 1});
    std::vector<at::Tensor> losses;
    for (int64_t b = 0; b < 2; ++b) {
      at::Tensor loss = at::zeros({}, cut.v.options());
      for (int64_t t = 0; t < (b == 0 ? 6 : step); ++t) {
        const at::Tensor left = scores[b][t].index_select(0, cut.order[b].slice(0, t));
        loss = loss + left.logsumexp(0) - left[0];
      }
      losses.push_back(loss);
    }
    const std::vector<at::Tensor> expected = gradients(cut, at::stack(losses));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(worst(found[i], expected[i]), 1e-13) << i << " of step " << step;
    }
  }
}

// As the GPU's kernel counts: each step for itself, in any order.
TEST(PointerSteps, AreImpossibleFromTheFirstOneOnThatChoosesNothingNew) {
  at::manual_seed(4);
  constexpr int64_t kSteps = 6;
  int64_t impossible = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const int64_t length = at::randint(1, kSteps + 1, {}).item<int64_t>();
    const at::Tensor drawn =
        trial % 4 == 0 ? at::randperm(length) : at::randint(-1, kSteps + 1, {length}, at::kLong);
    const auto* order = drawn.const_data_ptr<int64_t>();
    std::set<int64_t> chosen;
    bool ended = false;
    for (int64_t t = 0; t < length; ++t) {
      std::set<int64_t> gone;  // what the step sees, though an earlier one was impossible
      for (int64_t before = 0; before < t; ++before) {
        if (order[before] >= 0 && order[before] < length) gone.insert(order[before]);
      }
      const bool in_range = order[t] >= 0 && order[t] < length;
      const AttentionStep found =
          kernels::step_of(t, length, length - static_cast<int64_t>(gone.size()),
                           in_range && !gone.contains(order[t]));
      if (ended) {
        EXPECT_EQ(found, AttentionStep::kTooLate) << drawn << t;
        continue;
      }
      ended = !in_range || !chosen.insert(order[t]).second;
      EXPECT_EQ(found, ended ? AttentionStep::kImpossible : AttentionStep::kPossible) << drawn << t;
    }
    impossible += ended ? 1 : 0;
  }
  EXPECT_GT(impossible, 1000);
  EXPECT_LT(impossible, 1600);
}

TEST(PointerLosses, SayWhatIsTooMuchForAGpu) {
  EXPECT_NO_THROW(kernels::check_fits_gpu(65535, 5000, 48 << 10));
  EXPECT_THROW(kernels::check_fits_gpu(65536, 10, 50), DeviceError);
  EXPECT_THROW(kernels::check_fits_gpu(10, 9831, 9831 * 5), DeviceError);
}

TEST(PointerLosses, OfLowerPrecisionAreComputedInFloat32) {
  const Case c = make_case(8, 4, 64, true, at::kFloat);
  const at::Tensor keys = c.keys.detach().to(at::kBFloat16),
                   queries = c.queries.detach().to(at::kBFloat16);
  const at::Tensor losses = pointer_losses(keys, queries, c.v, c.order, c.lengths);
  EXPECT_EQ(losses.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(losses, pointer_losses(keys.to(at::kFloat), queries.to(at::kFloat), c.v,
                                               c.order, c.lengths)));
}

TEST(AttentionScores, OfOneStepAreTheScoresOfTheLosses) {
  const Case c = make_case(4, 3, 16, false, at::kDouble);
  const at::NoGradGuard no_grad;
  const at::Tensor scores = attention_scores(c.keys, c.queries[0], c.v);  // [B, T]
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(scores[b][j].item<double>(),
                  ((c.keys[j][b] + c.queries[0][b]).tanh() * c.v).sum().item<double>(), 1e-14);
    }
  }
}

}  // namespace
}  // namespace dtrain::layers
