#include "models/pointer_network.h"

#include <gtest/gtest.h>

#include "layers/dropout.h"
#include "models/parameter_format.h"

namespace dtrain::models {
namespace {

struct Batch {
  Sets sets;
  at::Tensor order;
};

Batch make_batch(const std::vector<int64_t>& lengths, int64_t longest,
                 at::ScalarType type = at::kFloat) {
  at::manual_seed(5);
  const auto count = static_cast<int64_t>(lengths.size());
  Batch batch{{at::zeros({count, longest, 8}, type), at::tensor(lengths, at::kLong), true},
              at::full({count, longest}, -1, at::kLong)};
  for (int64_t b = 0; b < count; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    batch.sets.elements[b]
        .slice(0, 0, length)
        .slice(1, 0, 7)
        .copy_(at::rand({length, 7}, at::kFloat));
    batch.order[b].slice(0, 0, length).copy_(at::randperm(length));
  }
  return batch;
}

Batch one_of(const Batch& batch, int64_t b) {
  const int64_t length = batch.sets.lengths[b].item<int64_t>();
  const auto cut = [&](const at::Tensor& x) { return x.slice(0, b, b + 1).slice(1, 0, length); };
  return {{cut(batch.sets.elements), batch.sets.lengths.slice(0, b, b + 1), false},
          cut(batch.order)};
}

at::Tensor losses(PointerNetwork& network, const Batch& batch) {
  return network.losses(batch.sets, network.encode(batch.sets), batch.order, batch.order);
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(PointerNetwork, HasTheNamesOfItsPythonCounterpart) {
  const PointerNetwork network({.features = 8, .hidden = 16});
  std::vector<std::string> names;
  for (const auto& item : network.named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "encoder.weight_ih_l0", "encoder.weight_hh_l0", "encoder.bias_ih_l0",
                       "encoder.bias_hh_l0", "encoder.weight_ih_l1", "encoder.weight_hh_l1",
                       "encoder.bias_ih_l1", "encoder.bias_hh_l1", "decoder.weight_ih_l0",
                       "decoder.weight_hh_l0", "decoder.bias_ih_l0", "decoder.bias_hh_l0",
                       "attention.key.weight", "attention.query.weight", "attention.v.weight"}));
}

TEST(PointerNetwork, WeightsAreAFunctionOfTheSeed) {
  const PointerNetwork a({.seed = 3}), b({.seed = 3}), other({.seed = 4});
  EXPECT_TRUE(at::equal(a.named_parameters()["decoder.weight_hh_l0"],
                        b.named_parameters()["decoder.weight_hh_l0"]));
  EXPECT_FALSE(at::equal(a.named_parameters()["decoder.weight_hh_l0"],
                         other.named_parameters()["decoder.weight_hh_l0"]));
}

TEST(PointerNetwork, ASampleDoesNotDependOnItsBatch) {
  PointerNetwork network({.hidden = 32, .dropout = 0.3});
  convert_floating_point(network, at::kDouble);
  const Batch batch = make_batch({7, 3, 1, 5}, 7, at::kDouble);
  network.train();
  const auto run = [&](const Batch& part, const at::Tensor& ids) {
    const layers::RandomScope randomness(layers::random_context(1, 0, ids));
    return losses(network, part);
  };
  const at::Tensor ids = at::tensor({40, 41, 42, 43}, at::kLong);
  const at::Tensor whole = run(batch, ids);
  network.zero_grad();
  whole.sum().backward();
  std::vector<at::Tensor> of_whole;
  for (const auto& p : network.parameters()) of_whole.push_back(p.grad().clone());
  network.zero_grad();
  for (int64_t b = 0; b < 4; ++b) {
    const at::Tensor alone = run(one_of(batch, b), ids.slice(0, b, b + 1));
    EXPECT_NEAR(alone.item<double>(), whole[b].item<double>(), 1e-12);
    alone.sum().backward();
  }
  for (size_t i = 0; i < of_whole.size(); ++i)
    EXPECT_LE(worst(network.parameters()[i].grad(), of_whole[i]), 1e-12) << i;
}

TEST(PointerNetwork, ChoosesPermutationsThatDoNotDependOnTheBatch) {
  PointerNetwork network({.hidden = 32});
  network.eval();
  const Batch batch = make_batch({6, 2, 4, 1}, 6);
  const at::Tensor choices = network.choose(batch.sets, network.encode(batch.sets));
  for (int64_t b = 0; b < 4; ++b) {
    const int64_t length = batch.sets.lengths[b].item<int64_t>();
    EXPECT_TRUE(at::equal(std::get<0>(choices[b].slice(0, 0, length).sort()), at::arange(length)))
        << choices[b];
    EXPECT_TRUE(choices[b].slice(0, length).eq(-1).all().item<bool>());
    const Batch alone = one_of(batch, b);
    EXPECT_TRUE(at::equal(network.choose(alone.sets, network.encode(alone.sets))[0],
                          choices[b].slice(0, 0, length)));
  }
}

// Free running and teacher forcing must compute the same network: if the order is the network's own
// choices, each choice is the likeliest element.
TEST(PointerNetwork, GreedyChoicesAreTheLikeliestByTheLossOfAllSteps) {
  PointerNetwork network({.hidden = 24});
  for (auto& p : network.parameters()) p.data().mul_(3);  // so that the scores differ
  network.eval();
  convert_floating_point(network, at::kDouble);
  const at::NoGradGuard no_grad;
  Batch batch = make_batch({5, 5, 5}, 5, at::kDouble);
  const auto memory = network.encode(batch.sets);
  const at::Tensor greedy = network.choose(batch.sets, memory);
  const at::Tensor of_greedy = network.losses(batch.sets, memory, greedy, greedy);
  // Exchanging the last two choices can only make the last but one step less likely.
  at::Tensor other = greedy.clone();
  other.select(1, 3).copy_(greedy.select(1, 4));
  other.select(1, 4).copy_(greedy.select(1, 3));
  const at::Tensor of_other = network.losses(batch.sets, memory, other, other);
  EXPECT_TRUE(of_greedy.lt(of_other).all().item<bool>()) << of_greedy << of_other;
}

TEST(PointerNetwork, ChoicesWithAGivenOrderNeverRepeatWhatTheOrderVisited) {
  PointerNetwork network({.hidden = 16});
  network.eval();
  const Batch batch = make_batch({6, 4}, 6);
  const at::Tensor choices = network.choose(batch.sets, network.encode(batch.sets), batch.order);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < batch.sets.lengths[b].item<int64_t>(); ++t) {
      const at::Tensor before = batch.order[b].slice(0, 0, t);
      EXPECT_FALSE(before.eq(choices[b][t]).any().item<bool>());
      EXPECT_LT(choices[b][t].item<int64_t>(), batch.sets.lengths[b].item<int64_t>());
    }
  }
  const auto memory = network.encode(batch.sets);
  const at::Tensor loss = network.losses(batch.sets, memory, batch.order, choices);
  EXPECT_TRUE(loss.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace dtrain::models
