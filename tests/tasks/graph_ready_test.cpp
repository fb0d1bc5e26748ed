// What CUDA graphs need of a step (docs/status.md), shown on the CPU: with static buffers a run has
// the same bits, lengths may be rounded up, and what the operators of a micro-step receive is the
// same in each step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string_view>

#include "support/operator_log.h"
#include "tasks/short_run.h"

namespace dtrain::tasks {
namespace {

using testing::OperatorLog;

// Three optimizer steps of two micro-steps on each of two ranks, with all that is drawn at random.
config::Config three_steps(const std::string& task) {
  config::Config config = example_config(task);
  config.model.dropout = 0.25;
  config.train.batch_size = 3;
  config.train.global_batch = 12;
  config.train.epochs = 3;  // of one step each
  config.train.ema = 0.9;
  config.optimizer.clip_norm = 1;
  config.pointer = {.teacher_forcing = 0.7, .teacher_forcing_end = 0.2};
  config.sequence = {
      .encoder_epochs = 2, .classifier_epochs = 1, .iterations = 0, .encoder_lr_ratio = 1};
  return config;
}

double largest_move(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double size = std::max(1.0, b[i].abs().max().item<double>());
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>() / size);
  }
  return largest;
}

class ThreeSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(ThreeSteps, HaveTheSameBitsWithStaticBuffers) {
  const config::Config config = three_steps(GetParam());
  const Example example = example_for(config);
  const auto trained = [&](bool static_buffers) {
    return weights_after({.config = config,
                          .ranks = 2,
                          .precision = train::Precision::kFp32,
                          .static_buffers = static_buffers},
                         example);
  };
  const std::vector<at::Tensor> plain = trained(false), same = trained(true);
  ASSERT_EQ(plain.size(), same.size());
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(at::equal(plain[i], same[i])) << "tensor " << i;
  const std::unique_ptr<Task> untrained = make_task(config, example.facts);
  EXPECT_GT(largest_move(plain, untrained->model().parameters()), 1e-4) << "nothing was learned";
}

INSTANTIATE_TEST_SUITE_P(EachTask, ThreeSteps, ::testing::Values("headpose", "pointer", "sequence"),
                         [](const auto& info) { return info.param; });

class PaddedMore : public ::testing::TestWithParam<std::string> {};

TEST_P(PaddedMore, TrainsTheSame) {
  config::Config config = three_steps(GetParam());
  const Example example = example_for(config);
  const std::vector<at::Tensor> to_the_longest = weights_after({.config = config}, example);
  for (const int64_t classes : {1, 2}) {
    config.data.length_classes = classes;
    for (const bool static_buffers : {false, true}) {
      const std::vector<at::Tensor> rounded =
          weights_after({.config = config, .static_buffers = static_buffers}, example);
      EXPECT_LE(largest_move(rounded, to_the_longest), 1e-9) << classes << " classes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachTaskWithLengths, PaddedMore, ::testing::Values("pointer", "sequence"),
                         [](const auto& info) { return info.param; });

// The logs of a run's micro-steps, by (step, micro-step).
using Logs = std::map<std::pair<int64_t, int64_t>, std::vector<std::string>>;

Logs logs_of(const config::Config& config, bool static_buffers) {
  Logs logs;
  std::optional<OperatorLog> log;
  int64_t micro = 0, of_step = -1;
  std::string_view before;
  const auto progress = [&](const char* name, int64_t step) {
    const std::string_view phase = name;
    const bool ends = phase == "data_wait" || (before == "optimizer" && phase != "optimizer");
    if (log && ends) {
      logs[{of_step, micro}] = log->lines();
      log.reset();
    }
    if (phase == "forward" && before != "forward") {
      micro = step == of_step ? micro + 1 : 0;
      of_step = step;
      log.emplace();
    }
    before = phase;
  };
  weights_after({.config = config,
                 .precision = train::Precision::kFp32,
                 .static_buffers = static_buffers,
                 .progress = progress},
                example_for(config));
  return logs;
}

// Steps of epochs 2 and later: at the first step the ranks agree on the parameters in use, and read
// the loss.
class Arguments : public ::testing::TestWithParam<std::string> {
 protected:
  config::Config config = [] {
    config::Config made = three_steps(GetParam());
    made.train.global_batch = 6;  // of one rank
    made.train.epochs = 4;        // of two steps each
    made.data.length_classes = 1;
    made.run.log_every = {.steps = 1000};
    made.train.eval_every = {.epochs = 1000};
    return made;
  }();
};

TEST_P(Arguments, OfTheOperatorsOfAMicroStepAreTheSameInEachStep) {
  const Logs logs = logs_of(config, /*static_buffers=*/true);
  ASSERT_EQ(logs.size(), 16u) << "eight steps of two micro-steps";
  for (const int64_t micro : {0, 1}) {
    const std::vector<std::string>& first = logs.at({2, micro});
    EXPECT_GT(first.size(), 100u) << "nothing was observed";
    for (int64_t step = 3; step < 8; ++step) {
      EXPECT_THAT(logs.at({step, micro}), ::testing::ContainerEq(first))
          << "step " << step << ", micro-step " << micro;
    }
  }
  EXPECT_GT(logs.at({2, 1}).size(), logs.at({2, 0}).size())
      << "the last micro-step has the optimizer";
}

// What the test above would miss if addresses were not seen.
TEST_P(Arguments, DifferWithoutStaticBuffers) {
  const Logs logs = logs_of(config, /*static_buffers=*/false);
  int same = 0;
  for (int64_t step = 3; step < 8; ++step) same += logs.at({step, 0}) == logs.at({2, 0});
  EXPECT_LT(same, 5);
}

// On the CPU an LSTM packs the rows that are not padding, so each batch of samples of different
// lengths has other sizes. On a GPU it takes padded batches.
INSTANTIATE_TEST_SUITE_P(EachTask, Arguments, ::testing::Values("headpose"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dtrain::tasks
