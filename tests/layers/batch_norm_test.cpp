// Batch norm compared with that of torch: over one batch, over ranks (threads with a barrier), and
// over sequences, which must give the results of their valid positions without padding.

#include "layers/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <barrier>
#include <thread>

#include "core/error.h"

namespace dtrain::layers {
namespace {

namespace nn = torch::nn;

constexpr double kExact = 1e-12;

double worst(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

// Sets parameters and statistics to values other than 1 and 0.
template <typename Norm>
void fill(Norm& norm, at::ScalarType dtype = at::kDouble) {
  const at::NoGradGuard no_grad;
  norm.to(dtype);
  norm.num_batches_tracked.set_data(at::full({}, 3, at::kLong));
  const int64_t channels = norm.weight.size(0);
  norm.weight.copy_(at::linspace(0.5, 1.5, channels));
  norm.bias.copy_(at::linspace(-0.3, 0.4, channels));
  norm.running_mean.copy_(at::linspace(-1, 2, channels));
  norm.running_var.copy_(at::linspace(0.5, 3, channels));
}

at::Tensor random(at::IntArrayRef sizes, uint64_t seed, at::ScalarType dtype = at::kDouble) {
  at::manual_seed(seed);
  return at::randn(sizes, dtype) * 2 + 0.7;
}

void expect_equal_state(const BatchNormImpl& ours, const nn::BatchNorm2dImpl& torchs,
                        double tolerance) {
  EXPECT_LE(worst(ours.running_mean, torchs.running_mean), tolerance);
  EXPECT_LE(worst(ours.running_var, torchs.running_var), tolerance);
  EXPECT_EQ(ours.num_batches_tracked.item<int64_t>(), torchs.num_batches_tracked.item<int64_t>());
}

TEST(BatchNorm, HasTheNamesAndTheResultsOfTorchs) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kFloat ? 1e-5 : kExact;
    BatchNorm ours(5);
    nn::BatchNorm2d torchs(5);
    fill(*ours, dtype);
    fill(*torchs, dtype);
    const auto mine = ours->named_buffers(), theirs = torchs->named_buffers();
    ASSERT_EQ(mine.keys(), theirs.keys());
    ASSERT_EQ(ours->named_parameters().keys(), torchs->named_parameters().keys());
    for (const bool training : {true, false}) {
      ours->train(training);
      torchs->train(training);
      const at::Tensor x = random({4, 5, 3, 3}, 1, dtype).set_requires_grad(true);
      const at::Tensor y = x.detach().clone().set_requires_grad(true);
      const at::Tensor a = ours->forward(x), b = torchs->forward(y);
      EXPECT_LE(worst(a, b), tolerance);
      a.square().sum().backward();
      b.square().sum().backward();
      EXPECT_LE(worst(x.grad(), y.grad()), tolerance);
      EXPECT_LE(worst(ours->weight.grad(), torchs->weight.grad()), tolerance);
    }
    expect_equal_state(*ours, *torchs, tolerance);
  }
}

TEST(BatchNorm, AcceptsVectorsOfItsChannels) {
  BatchNorm norm(3);
  EXPECT_EQ(norm->forward(random({4, 3}, 1, at::kFloat)).sizes(), at::IntArrayRef({4, 3}));
  EXPECT_THROW(norm->forward(random({4, 2}, 1, at::kFloat)), Error);
  norm->eval();
  EXPECT_NO_THROW(norm->forward(random({1, 3}, 1, at::kFloat)));
}

TEST(BatchNorm, KeepsItsStatisticsWhenFrozen) {
  BatchNorm norm(3);
  norm->freeze();
  norm->train();
  EXPECT_FALSE(norm->is_training());
  norm->forward(random({4, 3}, 1, at::kFloat));
  EXPECT_TRUE(at::equal(norm->running_mean, at::zeros({3})));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
}

// ---- over ranks ---------------------------------------------------------------------------------

class ThreadSum {  // a sum over threads as ranks, in the order of the ranks
 public:
  explicit ThreadSum(int ranks)
      : ranks_(ranks), given_(static_cast<size_t>(ranks)), barrier_(ranks) {}
  SumOverRanks of(int rank) {
    return [this, rank](at::Tensor& tensor) {
      ++calls_;
      given_[static_cast<size_t>(rank)] = tensor.clone();
      barrier_.arrive_and_wait();
      at::Tensor sum = at::zeros_like(tensor);
      for (const at::Tensor& given : given_) sum += given;
      barrier_.arrive_and_wait();
      tensor.copy_(sum);
    };
  }
  int calls() const { return calls_ / ranks_; }

 private:
  int ranks_;
  std::atomic<int> calls_ = 0;
  std::vector<at::Tensor> given_;
  std::barrier<> barrier_;
};

struct RankResult {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
  BatchNorm norm{nullptr};
};

at::Tensor loss_of(const at::Tensor& y, const at::Tensor& factor) {
  return (y.sigmoid() * factor).sum();
}

// Each rank has the samples of its share; a rank of no samples runs one sample of zeros.
std::vector<RankResult> run_ranks(const at::Tensor& x, const at::Tensor& factor,
                                  const std::vector<int64_t>& shares, ThreadSum& sum) {
  std::vector<RankResult> results(shares.size());
  std::vector<std::thread> threads;
  int64_t begin = 0;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const int64_t share = shares[rank];
    threads.emplace_back([&, rank, begin, share] {
      RankResult& result = results[rank];
      result.norm = BatchNorm(x.size(1));
      fill(*result.norm, x.scalar_type());
      const auto part = [&](const at::Tensor& whole) {
        at::Tensor mine = share > 0 ? whole.slice(0, begin, begin + share).clone()
                                    : at::zeros_like(whole.slice(0, 0, 1));
        return mine.contiguous(whole.suggest_memory_format());
      };
      const at::Tensor input = part(x.detach()).set_requires_grad(true);
      at::Tensor output;
      {
        const SyncScope scope(sum.of(static_cast<int>(rank)), share > 0);
        output = result.norm->forward(input);
      }
      (loss_of(output, part(factor)) * (share > 0 ? 1 : 0)).backward();  // outside the scope
      result.output = output.detach();
      result.input_gradient = input.grad();
      result.weight_gradient = result.norm->weight.grad();
      result.bias_gradient = result.norm->bias.grad();
    });
    begin += share;
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

void expect_one_rank(const at::Tensor& x, const std::vector<int64_t>& shares, double tolerance) {
  const at::Tensor factor =
      random(x.sizes(), 99, x.scalar_type()).contiguous(x.suggest_memory_format());
  nn::BatchNorm2d torchs(x.size(1));
  fill(*torchs, x.scalar_type());
  const at::Tensor whole = x.clone().set_requires_grad(true);
  const at::Tensor expected = torchs->forward(whole);
  loss_of(expected, factor).backward();

  ThreadSum sum(static_cast<int>(shares.size()));
  const std::vector<RankResult> ranks = run_ranks(x, factor, shares, sum);
  EXPECT_EQ(sum.calls(), 2);  // one in forward, one in backward
  at::Tensor weight_gradient = at::zeros_like(torchs->weight),
             bias_gradient = at::zeros_like(torchs->bias);
  int64_t begin = 0;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const int64_t end = begin + shares[rank];
    weight_gradient += ranks[rank].weight_gradient;
    bias_gradient += ranks[rank].bias_gradient;
    expect_equal_state(*ranks[rank].norm, *torchs, tolerance);
    EXPECT_TRUE(at::equal(ranks[rank].norm->running_var, ranks[0].norm->running_var))
        << "ranks differ";
    if (begin == end) {
      EXPECT_TRUE(
          at::equal(ranks[rank].input_gradient, at::zeros_like(ranks[rank].input_gradient)));
      EXPECT_TRUE(at::equal(ranks[rank].weight_gradient, at::zeros_like(weight_gradient)));
      continue;
    }
    EXPECT_LE(worst(ranks[rank].output, expected.slice(0, begin, end)), tolerance)
        << "rank " << rank;
    EXPECT_LE(worst(ranks[rank].input_gradient, whole.grad().slice(0, begin, end)), tolerance)
        << "rank " << rank;
    begin = end;
  }
  EXPECT_LE(worst(weight_gradient, torchs->weight.grad()), tolerance);
  EXPECT_LE(worst(bias_gradient, torchs->bias.grad()), tolerance);
}

TEST(SyncBatchNorm, TwoRanksAreOne) { expect_one_rank(random({7, 5, 6, 6}, 2), {3, 4}, kExact); }

TEST(SyncBatchNorm, InEveryMemoryFormatAndNumberOfChannels) {
  for (const int64_t channels : {1, 31, 32, 70}) {
    expect_one_rank(random({5, channels, 5, 7}, 3), {2, 3}, kExact);
    expect_one_rank(random({5, channels, 5, 7}, 3).contiguous(at::MemoryFormat::ChannelsLast),
                    {2, 3}, kExact);
  }
}

TEST(SyncBatchNorm, ARankWithoutSamplesAddsNothing) {
  expect_one_rank(random({5, 4, 3, 3}, 4), {2, 0, 3}, kExact);
  expect_one_rank(random({5, 4, 3, 3}, 4), {0, 5}, kExact);
}

TEST(SyncBatchNorm, InSinglePrecision) {
  expect_one_rank(random({8, 16, 9, 9}, 5, at::kFloat), {4, 4}, 2e-6);
}

TEST(SyncBatchNorm, WithAMeanFarFromZero) {
  expect_one_rank(random({6, 4, 8, 8}, 6) + 30, {3, 3}, kExact);
}

TEST(SyncBatchNorm, HalvesWithoutItDiffer) {  // shows that the tests above can fail
  const at::Tensor x = random({4, 3, 5, 5}, 7);
  BatchNorm whole(3), half(3);
  fill(*whole);
  fill(*half);
  EXPECT_GT(worst(half->forward(x.slice(0, 0, 2)), whole->forward(x).slice(0, 0, 2)), 1e-3);
}

TEST(SyncBatchNorm, TheGradientIsThatOfFiniteDifferences) {
  const at::Tensor x = random({3, 2, 2, 2}, 8), factor = random({3, 2, 2, 2}, 9);
  BatchNorm norm(2);
  fill(*norm);
  const auto loss = [&](const at::Tensor& input) {
    const SyncScope alone([](at::Tensor&) {});
    return loss_of(norm->forward(input), factor);
  };
  const at::Tensor input = x.clone().set_requires_grad(true);
  loss(input).backward();
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const at::Tensor up = x.clone(), down = x.clone();
    up.view(-1)[i] += kStep;
    down.view(-1)[i] -= kStep;
    const double slope = (loss(up) - loss(down)).item<double>() / (2 * kStep);
    EXPECT_NEAR(input.grad().view(-1)[i].item<double>(), slope, 1e-7) << i;
  }
}

TEST(SyncBatchNorm, HalfPrecisionIsComputedInSingle) {
  const at::Tensor x = random({4, 3, 5, 5}, 10, at::kFloat).to(at::kBFloat16);
  BatchNorm half(3), single(3);
  const SyncScope alone([](at::Tensor&) {});
  const at::Tensor y = half->forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y, single->forward(x.to(at::kFloat)).to(at::kBFloat16)));
}

TEST(SyncScope, NestsAndBelongsToItsThread) {
  const SyncScope outer([](at::Tensor&) {});
  {
    const SyncScope inner([](at::Tensor&) {}, false);
    EXPECT_FALSE(current_sync_scope()->has_samples());
  }
  EXPECT_EQ(current_sync_scope(), &outer);
  std::thread([] { EXPECT_EQ(current_sync_scope(), nullptr); }).join();
}

// ---- over valid positions -----------------------------------------------------------------------

at::Tensor valid(const at::Tensor& x, const at::Tensor& lengths) {
  return (at::arange(x.size(2)).unsqueeze(0) < lengths.unsqueeze(1)).unsqueeze(1).expand_as(x);
}

TEST(BatchNormOfSequences, IsThatOfTheValidPositionsOnly) {
  const at::Tensor lengths = at::tensor({9, 40, 1, 33}, at::kLong), x = random({4, 6, 40}, 11),
                   factor = random({4, 6, 40}, 12);
  const at::Tensor mask = valid(x, lengths);
  const auto flat = [&](const at::Tensor& t) {  // [1, C, positions, 1]
    std::vector<at::Tensor> parts;
    for (int64_t b = 0; b < 4; ++b) parts.push_back(t[b].slice(1, 0, lengths[b].item<int64_t>()));
    return at::cat(parts, 1).unsqueeze(0).unsqueeze(3);
  };
  for (const bool training : {true, false}) {
    BatchNorm ours(6);
    nn::BatchNorm2d torchs(6);
    fill(*ours);
    fill(*torchs);
    ours->train(training);
    torchs->train(training);
    const at::Tensor padded = x.clone().set_requires_grad(true),
                     dense = x.clone().set_requires_grad(true);
    const at::Tensor y = ours->forward_valid(padded, lengths),
                     expected = torchs->forward(flat(dense));
    EXPECT_TRUE(at::equal(y.masked_select(~mask), at::zeros_like(y.masked_select(~mask))));
    EXPECT_LE(worst(flat(y), expected), kExact);
    loss_of(y, factor * mask).backward();
    loss_of(expected, flat(factor)).backward();
    EXPECT_LE(worst(padded.grad(), dense.grad()), kExact);  // zero beyond the lengths on both sides
    EXPECT_LE(worst(ours->weight.grad(), torchs->weight.grad()), kExact);
    EXPECT_LE(worst(ours->bias.grad(), torchs->bias.grad()), kExact);
    expect_equal_state(*ours, *torchs, kExact);
  }
}

TEST(BatchNormOfSequences, PaddingChangesNothingEvenIfInfinite) {
  const at::Tensor lengths = at::tensor({5, 3}, at::kLong), x = random({2, 3, 5}, 13, at::kFloat);
  at::Tensor longer = at::full({2, 3, 90}, std::numeric_limits<float>::infinity());
  longer.slice(2, 0, 5).copy_(at::where(valid(x, lengths), x, longer.slice(2, 0, 5)));
  BatchNorm a(3), b(3);
  const at::Tensor expected = a->forward_valid(x, lengths), y = b->forward_valid(longer, lengths);
  EXPECT_TRUE(at::equal(y.slice(2, 0, 5), expected));
  EXPECT_TRUE(at::equal(a->running_var, b->running_var));
}

TEST(BatchNormOfSequences, OverRanksTheStatisticsAreOfAllValidPositions) {
  const at::Tensor lengths = at::tensor({4, 7, 2}, at::kLong), x = random({3, 2, 7}, 14);
  BatchNorm whole(2);
  fill(*whole);
  const at::Tensor expected = whole->forward_valid(x, lengths);
  ThreadSum sum(2);
  std::thread other([&] {
    BatchNorm norm(2);
    fill(*norm);
    const SyncScope scope(sum.of(1));
    EXPECT_LE(worst(norm->forward_valid(x.slice(0, 1), lengths.slice(0, 1)), expected.slice(0, 1)),
              kExact);
  });
  BatchNorm norm(2);
  fill(*norm);
  const SyncScope scope(sum.of(0));
  EXPECT_LE(
      worst(norm->forward_valid(x.slice(0, 0, 1), lengths.slice(0, 0, 1)), expected.slice(0, 0, 1)),
      kExact);
  other.join();
  EXPECT_LE(worst(norm->running_var, whole->running_var), kExact);
}

TEST(BatchNormOfSequences, ASingleValidValueGivesTheBiasAndChangesNoStatistics) {
  BatchNorm norm(3);
  fill(*norm);
  const at::Tensor x = random({2, 3, 5}, 15), one = at::tensor({1, 0}, at::kLong);
  const at::Tensor mean = norm->running_mean.clone(), variance = norm->running_var.clone();
  const at::Tensor input = x.clone().set_requires_grad(true);
  const at::Tensor y = norm->forward_valid(input, one);
  EXPECT_LE(worst(y[0].select(1, 0), norm->bias), kExact);
  y.square().sum().backward();
  EXPECT_LE(worst(input.grad(), at::zeros_like(x)), kExact);
  EXPECT_TRUE(at::equal(norm->running_mean, mean));
  EXPECT_TRUE(at::equal(norm->running_var, variance));

  norm->forward_valid(x, at::tensor({1, 1}, at::kLong));
  EXPECT_FALSE(at::equal(norm->running_var, variance));
}

TEST(BatchNorm, ASingleValueIsRejectedInTheFirstBatchOnly) {
  BatchNorm norm(3);
  fill(*norm);
  norm->num_batches_tracked.zero_();
  const at::Tensor one = random({1, 3, 1, 1}, 16);
  EXPECT_THROW(norm->forward(one), Error);
  norm->forward(random({2, 3, 1, 1}, 17));
  const at::Tensor variance = norm->running_var.clone();
  EXPECT_LE(worst(norm->forward(one).flatten(), norm->bias), kExact);
  EXPECT_TRUE(at::equal(norm->running_var, variance));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 2);
}

TEST(BatchNormOfSequences, LengthsOfAnotherBatchAreRejected) {
  BatchNorm norm(2);
  EXPECT_THROW(norm->forward_valid(at::ones({2, 2, 4}), at::tensor({4}, at::kLong)), Error);
  EXPECT_THROW(norm->forward_valid(at::ones({2, 2, 4}), at::ones({2})), Error);
}

}  // namespace
}  // namespace dtrain::layers
