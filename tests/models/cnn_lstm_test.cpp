#include "models/cnn_lstm.h"

#include <gtest/gtest.h>

#include <map>

#include "layers/dropout.h"
#include "layers/lengths.h"
#include "models/freeze.h"
#include "models/parameter_format.h"

namespace dtrain::models {
namespace {

constexpr int64_t kFeatures = 3, kClasses = 4;

// In float64, so that the influence of one sequence on another is visible beyond rounding. The
// statistics are not 0 and 1.
class CnnLstmTest : public ::testing::Test {
 protected:
  CnnLstmTest() {
    at::manual_seed(3);
    const at::NoGradGuard no_grad;
    for (auto& item : network.named_buffers()) {
      if (item.key().ends_with("running_mean")) item.value().normal_();
      if (item.key().ends_with("running_var")) item.value().uniform_(0.5, 2);
    }
    for (auto& item : network.named_parameters()) {
      if (item.key().starts_with("bn")) item.value().uniform_(0.5, 1.5);
    }
    convert_floating_point(network, at::kDouble);
    // More than one group; odd, even, equal and the shortest lengths.
    for (const int64_t length : {17, 1, 40, 2, 9, 9, 26, 33, 5, 12}) {
      sequences.push_back(at::randn({length, kFeatures}, at::kDouble));
    }
  }

  struct Padded {
    at::Tensor rows, lengths, ids;
  };
  Padded padded(const std::vector<size_t>& which, int64_t positions, double padding = 0) const {
    Padded batch{
        at::full({static_cast<int64_t>(which.size()), positions, kFeatures}, padding, at::kDouble),
        {},
        {}};
    std::vector<int64_t> lengths, ids;
    for (size_t i = 0; i < which.size(); ++i) {
      const at::Tensor& sequence = sequences[which[i]];
      batch.rows[static_cast<int64_t>(i)].slice(0, 0, sequence.size(0)).copy_(sequence);
      lengths.push_back(sequence.size(0));
      ids.push_back(static_cast<int64_t>(100 + which[i]));
    }
    batch.lengths = at::tensor(lengths, at::kLong);
    batch.ids = at::tensor(ids, at::kLong);
    return batch;
  }
  std::vector<size_t> all() const { return {3, 0, 1, 2, 4, 5, 6, 7, 8, 9}; }

  // Each sequence must give the same result alone and in a batch, with any padding.
  template <typename Run>
  void expect_independent_of_the_batch(Run run) {
    const at::NoGradGuard no_grad;
    const std::vector<size_t> which = all();
    const at::Tensor together = run(padded(which, 40)),
                     longer = run(padded(which, 53, /*padding=*/1e3));
    for (size_t i = 0; i < which.size(); ++i) {
      const int64_t length = sequences[which[i]].size(0);
      const at::Tensor alone = run(padded({which[i]}, length))[0];
      for (const at::Tensor& batch : {together, longer}) {
        const at::Tensor mine = batch[static_cast<int64_t>(i)];
        EXPECT_TRUE(at::allclose(mine.slice(0, 0, alone.size(0)), alone, 1e-12, 1e-12))
            << "sequence of " << length;
        EXPECT_EQ(mine.slice(0, alone.size(0)).abs().sum().item<double>(), 0)
            << "beyond a sequence of " << length;
      }
    }
  }

  CnnLstm network{{.features = kFeatures, .classes = kClasses, .hidden = 16, .dropout = 0}};
  std::vector<at::Tensor> sequences;
};

TEST_F(CnnLstmTest, ASequencesClassDoesNotDependOnItsBatch) {
  network.eval();
  expect_independent_of_the_batch(
      [&](const Padded& b) { return network.classify(b.rows, b.lengths); });
}

TEST_F(CnnLstmTest, TheReconstructionDoesNotDependOnTheBatch) {
  network.eval();
  expect_independent_of_the_batch([&](const Padded& b) {
    const at::Tensor valid = layers::valid_positions(b.lengths, b.rows.size(1)).unsqueeze(2);
    return network.rebuild(b.rows * valid, b.lengths) * valid;
  });
}

TEST_F(CnnLstmTest, DropoutDoesNotDependOnTheBatch) {
  const auto made = std::make_shared<CnnLstm>(CnnLstmOptions{.features = kFeatures,
                                                             .classes = kClasses,
                                                             .hidden = 16,
                                                             .dropout = 0.4,
                                                             .lstm_dropout = 0.5});
  CnnLstm& other = *made;
  convert_floating_point(other, at::kDouble);
  freeze_batch_norm(other);
  other.train();
  const auto run = [&](const Padded& b) {
    const layers::RandomScope scope(layers::random_context(5, 2, b.ids));
    return other.classify(b.rows, b.lengths);
  };
  expect_independent_of_the_batch(run);
  const Padded batch = padded(all(), 40);
  const at::Tensor dropped = run(batch);
  other.eval();
  EXPECT_FALSE(at::allclose(dropped, run(batch)));
}

TEST_F(CnnLstmTest, TrainingStatisticsAreThoseOfTheValidPositions) {
  const std::map<std::string, at::Tensor> before = [&] {
    std::map<std::string, at::Tensor> copies;
    for (const auto& item : network.named_buffers()) copies[item.key()] = item.value().clone();
    return copies;
  }();
  network.train();
  const Padded batch = padded(all(), 45, /*padding=*/7);
  network.classify(batch.rows, batch.lengths);
  const auto parameters = network.named_parameters();
  const auto buffers = network.named_buffers();

  // Computed here from the sequences one by one.
  std::vector<at::Tensor> inputs;
  for (const size_t i : all()) inputs.push_back(sequences[i].t().unsqueeze(0));
  const auto layer = [&](const std::string& conv, const std::string& norm, int64_t stride) {
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& x : inputs)
      outputs.push_back(at::conv1d(x, parameters[conv + ".weight"], {}, stride, 2));
    const at::Tensor joined = at::cat(outputs, 2).squeeze(0);
    const auto [variance, mean] = at::var_mean(joined, at::IntArrayRef({1}), /*unbiased=*/true);
    EXPECT_TRUE(at::allclose(buffers[norm + ".running_mean"],
                             0.9 * before.at(norm + ".running_mean") + 0.1 * mean, 1e-12));
    EXPECT_TRUE(at::allclose(buffers[norm + ".running_var"],
                             0.9 * before.at(norm + ".running_var") + 0.1 * variance, 1e-12));
    const at::Tensor biased = at::var(joined, at::IntArrayRef({1}), /*unbiased=*/false);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto along = [](const at::Tensor& t) { return t.view({1, -1, 1}); };
      inputs[i] = ((outputs[i] - along(mean)) *
                       along((biased + 1e-5).rsqrt() * parameters[norm + ".weight"]) +
                   along(parameters[norm + ".bias"]))
                      .relu();
    }
  };
  const at::NoGradGuard no_grad;
  layer("conv1", "bn1", 1);
  layer("conv2", "bn2", 2);
}

TEST_F(CnnLstmTest, AFrozenEncoderKeepsItsWeightsAndStatistics) {
  network.freeze_encoder(true);
  network.train();
  const Padded batch = padded(all(), 40);
  const at::Tensor mean = network.named_buffers()["bn1.running_mean"].clone();
  network.classify(batch.rows, batch.lengths).sum().backward();
  for (const auto& item : network.named_parameters()) {
    const bool trained = !CnnLstm::is_encoder(item.key());
    EXPECT_EQ(item.value().requires_grad(), trained) << item.key();
    EXPECT_EQ(item.value().grad().defined(), item.key().starts_with("fc.")) << item.key();
  }
  EXPECT_TRUE(at::equal(network.named_buffers()["bn1.running_mean"], mean));

  network.freeze_encoder(false);
  network.classify(batch.rows, batch.lengths).sum().backward();
  EXPECT_TRUE(network.named_parameters()["lstm.weight_hh_l1"].grad().defined());
  EXPECT_FALSE(at::equal(network.named_buffers()["bn1.running_mean"], mean));
}

TEST_F(CnnLstmTest, HasTorchsNames) {
  std::vector<std::string> names;
  for (const auto& item : network.named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight", "bn2.weight", "bn2.bias",
                "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0", "lstm.bias_hh_l0",
                "lstm.weight_ih_l1", "lstm.weight_hh_l1", "lstm.bias_ih_l1", "lstm.bias_hh_l1",
                "fc.weight", "fc.bias", "reconstruct.weight", "reconstruct.bias"}));
}

TEST_F(CnnLstmTest, InitialWeightsDependOnTheSeed) {
  const CnnLstmOptions options{.features = kFeatures, .classes = kClasses, .hidden = 16, .seed = 8};
  CnnLstmOptions other = options;
  other.seed = 9;
  const CnnLstm a(options), b(options), c(other);
  const auto pa = a.named_parameters(), pb = b.named_parameters(), pc = c.named_parameters();
  for (const auto& item : pa) {
    EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
    EXPECT_TRUE(at::equal(item.value(), pb[item.key()])) << item.key();
    const bool constant = item.key().starts_with("bn");
    EXPECT_EQ(at::equal(item.value(), pc[item.key()]), constant) << item.key();
  }
  EXPECT_TRUE(at::equal(pa["lstm.bias_ih_l1"].slice(0, 16, 32), at::ones({16}))) << "forget gates";
}

}  // namespace
}  // namespace dtrain::models
