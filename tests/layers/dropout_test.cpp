#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "core/error.h"
#include "layers/dropout.h"

namespace dtrain::layers {
namespace {

at::Tensor ids(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

at::Tensor dropped(const at::Tensor& input, const at::Tensor& sample_ids, double p = 0.3,
                   int64_t step = 5, int64_t layer = 0, uint64_t seed = 11) {
  const RandomScope scope(random_context(seed, step, sample_ids));
  return keyed_dropout(input, p, layer);
}

TEST(KeyedDropout, ASampleHasTheSameMaskInAnyBatch) {
  const at::Tensor batch = dropped(at::ones({3, 100}), ids({5, 7, 9}));
  const at::Tensor other = dropped(at::ones({2, 100}), ids({9, 5}));
  EXPECT_TRUE(at::equal(batch[0], other[1]));
  EXPECT_TRUE(at::equal(batch[2], other[0]));
  EXPECT_TRUE(at::equal(batch[1], dropped(at::ones({1, 100}), ids({7}))[0]));
  EXPECT_FALSE(at::equal(batch[0], batch[1]));
}

TEST(KeyedDropout, DependsOnEachPartOfTheKey) {
  const at::Tensor x = at::ones({2, 100});
  const at::Tensor base = dropped(x, ids({1, 2}));
  EXPECT_TRUE(at::equal(base, dropped(x, ids({1, 2}))));
  EXPECT_FALSE(at::equal(base, dropped(x, ids({1, 2}), 0.3, 6)));
  EXPECT_FALSE(at::equal(base, dropped(x, ids({1, 2}), 0.3, 5, 1)));
  EXPECT_FALSE(at::equal(base, dropped(x, ids({1, 2}), 0.3, 5, 0, 12)));
  EXPECT_FALSE(at::equal(base, dropped(x, ids({3, 4}))));
}

TEST(KeyedDropout, DropsTheRightShareAndKeepsTheMean) {
  for (const double p : {0.1, 0.3, 0.5, 0.9}) {
    const int64_t samples = 256, elements = 512;
    const at::Tensor y = dropped(at::ones({samples, elements}), at::arange(samples), p);
    const double n = static_cast<double>(samples * elements);
    const double share = (y == 0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / n));
    EXPECT_FLOAT_EQ(y.max().item<float>(), static_cast<float>(1 / (1 - p)));
    // Neither a column nor a row is always dropped or always kept.
    const at::Tensor columns = (y == 0).to(at::kDouble).mean(0);
    EXPECT_NEAR(columns.max().item<double>(), p,
                6 * std::sqrt(p * (1 - p) / static_cast<double>(samples)));
  }
}

TEST(KeyedDropout, TheGradientIsTheMask) {
  const at::Tensor x = at::ones({4, 50}, at::kDouble).requires_grad_();
  const at::Tensor y = dropped(x, ids({1, 2, 3, 4}));
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.detach()));  // the input is all ones
  EXPECT_EQ(y.scalar_type(), at::kDouble);
  EXPECT_EQ(y.max().item<double>(), 1 / (1 - 0.3));
}

TEST(KeyedDropout, TheMemoryFormatDoesNotMatter) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({2, 3, 4, 5});
  const at::Tensor expected = dropped(x, ids({1, 2}));
  const at::Tensor last = dropped(x.contiguous(at::MemoryFormat::ChannelsLast), ids({1, 2}));
  EXPECT_TRUE(at::equal(last, expected));
}

TEST(KeyedDropout, DropsPackedRowsAsPaddedOnes) {
  // Time first
  const at::Tensor lengths = at::tensor({2, 5, 1, 3}, at::kLong), x = at::rand({5, 4, 7});
  const PackedSteps steps = pack_by_length(lengths.const_data_ptr<int64_t>(), 4);
  const RandomScope scope(random_context(3, 1, ids({8, 6, 9, 7})));
  KeyedDropoutImpl layer(0.4, 2);
  const at::Tensor padded = layer.forward_time_first(x).index_select(1, steps.indices());
  const at::Tensor packed =
      layer.forward_packed(pack(x.index_select(1, steps.indices()), steps), steps);
  EXPECT_TRUE(at::equal(packed, pack(padded, steps)));
  EXPECT_GT(packed.eq(0).sum().item<int64_t>(), 10);
  layer.eval();
  EXPECT_TRUE(at::equal(layer.forward_packed(packed, steps), packed));
}

TEST(KeyedDropout, KeepsHalfPrecisionAndEmptyBatches) {
  EXPECT_EQ(dropped(at::ones({2, 8}, at::kHalf), ids({1, 2})).scalar_type(), at::kHalf);
  EXPECT_EQ(dropped(at::ones({0, 8}), ids({})).sizes(), at::IntArrayRef({0, 8}));
}

TEST(KeyedDropout, WithoutAScopeItIsAnError) {
  EXPECT_THROW(keyed_dropout(at::ones({1, 2}), 0.5, 0), Error);
  EXPECT_NO_THROW(keyed_dropout(at::ones({1, 2}), 0.0, 0));  // draws nothing
  EXPECT_THROW(dropped(at::ones({2, 2}), ids({1})), Error);  // ids of another batch
}

// Sixteen elements of two samples, as a bit mask: what any run has drawn with this key.
TEST(KeyedDropout, DrawsWhatItHasAlwaysDrawn) {
  const at::Tensor kept = dropped(at::ones({2, 16}), ids({5, 7})) != 0;
  const at::Tensor bits = kept.to(at::kLong).mul_(at::pow(2, at::arange(16, at::kLong))).sum(1);
  EXPECT_TRUE(at::equal(bits, at::tensor({48179, 41770}, at::kLong))) << bits;
}

// What a graph of kernels needs: the arguments stay, what they point to changes.
TEST(KeyedDropout, ReadsTheNumbersOfItsKeyInEachStep) {
  const at::Tensor x = at::ones({2, 100});
  const RandomContext context = random_context(11, 5, ids({5, 7}));
  const RandomScope scope(context);
  EXPECT_TRUE(at::equal(keyed_dropout(x, 0.3, 0), dropped(x, ids({5, 7}))));
  context.step.fill_(6);
  EXPECT_TRUE(at::equal(keyed_dropout(x, 0.3, 0), dropped(x, ids({5, 7}), 0.3, 6)));
  context.sample_ids.copy_(ids({9, 5}));
  EXPECT_TRUE(at::equal(keyed_dropout(x, 0.3, 0), dropped(x, ids({9, 5}), 0.3, 6)));
  context.seed.fill_(-1);  // an unsigned number of 64 ones
  EXPECT_TRUE(
      at::equal(keyed_dropout(x, 0.3, 0), dropped(x, ids({9, 5}), 0.3, 6, 0, ~uint64_t{0})));
}

TEST(KeyedDropout, RefusesAKeyThatItCannotRead) {
  RandomContext context = random_context(11, 5, ids({1, 2}));
  context.step = at::zeros({}, at::kInt);
  const RandomScope scope(context);
  EXPECT_THROW(keyed_dropout(at::ones({2, 4}), 0.3, 0), Error);
}

TEST(RandomScope, NestsAndBelongsToItsThread) {
  EXPECT_EQ(current_random_context(), nullptr);
  {
    const RandomScope outer(random_context(0, 1, ids({1})));
    {
      const RandomScope inner(random_context(0, 2, ids({1})));
      EXPECT_EQ(current_random_context()->step.item<int64_t>(), 2);
    }
    EXPECT_EQ(current_random_context()->step.item<int64_t>(), 1);
    std::thread([] { EXPECT_EQ(current_random_context(), nullptr); }).join();
  }
  EXPECT_EQ(current_random_context(), nullptr);
}

}  // namespace
}  // namespace dtrain::layers
