// Promise 2 of docs/promises.md: in float64, any number of ranks, micro-steps and buckets trains
// like one rank with the whole batch, at every step. The one rank is compared with a plain loop of
// LibTorch's own optimizers, which shares no code with it.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils.h>
#include <torch/optim.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "core/random.h"
#include "dist/gradient_reducer.h"
#include "support/add_loss.h"
#include "support/thread_world.h"
#include "text/strings.h"
#include "train/clip.h"
#include "train/grad_scaler.h"
#include "train/optimizer.h"

namespace dtrain {
namespace {

namespace nn = torch::nn;

const bool kOneThread = (at::set_num_threads(1), true);  // ranks are threads here

// Tails of 2: ranks and micro-steps without samples
constexpr int64_t kSamples = 98, kGlobalBatch = 24;
constexpr int64_t kSteps = 20;
constexpr double kRate = 0.05;

at::Tensor keyed_tensor(at::IntArrayRef sizes, uint64_t key) {
  const at::Tensor made = at::empty(sizes, at::kDouble);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data_ptr<double>()[i] = 2.0 * uniform01(keyed(key, i)) - 1;
  return made;
}

// ---- The toy networks and their data ----

struct Net : nn::Module {
  virtual at::Tensor forward(const at::Tensor& input) = 0;
  std::vector<int64_t> sample;  // sizes of one input
};

struct ConvNet : Net {
  ConvNet() {
    sample = {2, 6, 6};
    one = register_module("one", nn::Conv2d(nn::Conv2dOptions(2, 4, 3)));
    two = register_module("two", nn::Conv2d(nn::Conv2dOptions(4, 3, 3)));
    head = register_module("head", nn::Linear(3, 2));
  }
  at::Tensor forward(const at::Tensor& x) override {
    return head(
        at::tanh(two(at::relu(one(x.contiguous(at::MemoryFormat::ChannelsLast))))).mean({2, 3}));
  }
  nn::Conv2d one{nullptr}, two{nullptr};
  nn::Linear head{nullptr};
};

struct FrozenBatchNormNet : Net {
  FrozenBatchNormNet() {
    sample = {2, 5, 5};
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(2, 4, 3).bias(false)));
    norm = register_module("norm", nn::BatchNorm2d(4));
    head = register_module("head", nn::Linear(4, 2));
    norm->running_mean.copy_(at::arange(4) * 0.1);
    norm->running_var.copy_(at::arange(4) * 0.5 + 0.5);
    norm->eval();
  }
  at::Tensor forward(const at::Tensor& x) override {
    return head(at::relu(norm(conv(x))).mean({2, 3}));
  }
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};
};

struct LstmNet : Net {
  LstmNet() {
    sample = {4, 3};
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).batch_first(true)));
    head = register_module("head", nn::Linear(4, 2));
  }
  at::Tensor forward(const at::Tensor& x) override {
    return head(std::get<0>(lstm(x)).select(1, -1));
  }
  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};
};

std::shared_ptr<Net> make_net(const std::string& name) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<Net> net;
  if (name == "conv") net = std::make_shared<ConvNet>();
  if (name == "frozen batch norm") net = std::make_shared<FrozenBatchNormNet>();
  if (name == "lstm") net = std::make_shared<LstmNet>();
  net->to(at::kDouble);
  uint64_t key = 1;
  for (at::Tensor& parameter : net->parameters()) {
    parameter.copy_(keyed_tensor(parameter.sizes(), key++) * 0.5);
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  return net;
}

std::vector<dist::NamedParameter> named_parameters(const nn::Module& net) {
  std::vector<dist::NamedParameter> list;
  for (const auto& entry : net.named_parameters()) list.push_back({entry.key(), entry.value()});
  return list;
}

struct Sums {
  at::Tensor loss, weight;
};

// Samples differ in weight, so that a mean of means would be detected.
Sums loss_of(Net& net, const std::vector<int64_t>& ids) {
  std::vector<at::Tensor> inputs, targets, weights;
  for (const int64_t id : ids) {
    inputs.push_back(keyed_tensor(net.sample, 1000 + id));
    targets.push_back(keyed_tensor({2}, 5000 + id));
    weights.push_back(at::full({}, 1.0 + static_cast<double>(id % 3), at::kDouble));
  }
  const at::Tensor weight = at::stack(weights);
  const at::Tensor errors = (net.forward(at::stack(inputs)) - at::stack(targets)).square().sum(1);
  return {(errors * weight).sum(), weight.sum()};
}

// ---- Which samples a rank reads ----

std::vector<int64_t> global_batch(int64_t step) {
  const int64_t per_epoch = (kSamples + kGlobalBatch - 1) / kGlobalBatch, epoch = step / per_epoch;
  const int64_t begin = step % per_epoch * kGlobalBatch,
                end = std::min(begin + kGlobalBatch, kSamples);
  std::vector<int64_t> ids;
  for (int64_t i = begin; i < end; ++i) ids.push_back((37 * i + 11 * epoch) % kSamples);
  return ids;
}

std::vector<int64_t> part(const std::vector<int64_t>& ids, int parts, int index) {
  const auto n = static_cast<int64_t>(ids.size());
  const auto begin = [&](int64_t i) {
    return (n * i + parts - 1) / parts;
  };  // uneven, and empty for small n
  return {ids.begin() + begin(index), ids.begin() + begin(index + 1)};
}

// ---- Training, and what is compared ----

struct Case {
  std::string network;
  bool adamw = false;
  int ranks = 1, accumulate = 1;
  int64_t cap_bytes = 1 << 20;
  std::optional<at::ScalarType> wire = {};
  // By rank; empty: all ranks reduce together, and not first within each host
  std::vector<int> hosts = {};
  dist::WithinHost within = dist::WithinHost::kThreads;
  std::function<void(int64_t step, int rank, at::Tensor& loss)> spoil = {};  // injects a fault
};

// AdamW runs with clipping and loss scaling too; neither may change the result. SGD decays norms
// and biases as well.
config::OptimizerConfig optimizer_options(bool adamw) {
  config::OptimizerConfig options;
  options.name = adamw ? config::OptimizerName::kAdamW : config::OptimizerName::kSgd;
  options.clip_norm = adamw ? 0.5 : 0;
  options.decay_norms_and_biases = !adamw;
  return options;
}

struct Snapshot {
  double loss = 0, scale = 1;
  int64_t skipped = 0;
  std::vector<at::Tensor> parameters;
};

std::vector<Snapshot> train_rank(const Case& c, dist::Communicator& world) {
  const auto net = make_net(c.network);
  const config::OptimizerConfig options = optimizer_options(c.adamw);
  dist::GradientReducer reducer(named_parameters(*net), world, world,
                                {c.cap_bytes, c.cap_bytes / 4, c.wire});
  train::Optimizer optimizer(options, named_parameters(*net));
  train::GradScaler scaler({}, c.adamw, at::kCPU, at::kDouble);
  const int64_t k = train::loss_power_of_two(2.0 * kGlobalBatch, c.ranks);
  std::vector<Snapshot> trace;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto share = part(global_batch(step), c.ranks, world.rank());
    for (int micro = 0; micro < c.accumulate; ++micro) {
      const auto ids = part(share, c.accumulate, micro);
      reducer.arm(micro + 1 == c.accumulate, !ids.empty());
      if (ids.empty()) continue;
      auto [loss, weight] = loss_of(*net, ids);
      if (c.spoil) c.spoil(step, world.rank(), loss);
      dist::add_loss(reducer, loss, weight);
      loss.backward(scaler.first_gradient(loss.scalar_type(), k));
    }
    reducer.finish();
    scaler.unscale(reducer.flat(), reducer.weight_sum(), k);
    const at::Tensor clip =
        options.clip_norm > 0 ? train::clip_factor(scaler.norm(), options.clip_norm) : at::Tensor();
    optimizer.step(at::full({}, kRate, at::kDouble), clip, scaler.found_inf(), scaler.taken());
    scaler.update();
    const auto state = scaler.state();
    Snapshot now{
        (reducer.loss_sum() / reducer.weight_sum()).item<double>(), state.scale, state.skipped, {}};
    for (const at::Tensor& parameter : net->parameters())
      now.parameters.push_back(parameter.detach().clone());
    trace.push_back(std::move(now));
    reducer.zero();
  }
  return trace;
}

std::vector<std::vector<Snapshot>> train_ranks(const Case& c) {
  std::vector<std::vector<Snapshot>> traces(static_cast<size_t>(c.ranks));
  dist::run_thread_world(c.ranks, [&](dist::Communicator& world) {
    const auto hosts =
        c.hosts.empty() ? nullptr : dist::make_hierarchical_of_threads(world, c.hosts, c.within);
    traces[static_cast<size_t>(world.rank())] = train_rank(c, hosts ? *hosts : world);
  });
  return traces;
}

// LibTorch's method with a group for what decays and one for norms and biases.
template <typename Method, typename Options>
std::unique_ptr<torch::optim::Optimizer> grouped(const Net& net, bool decay_all,
                                                 const Options& options) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const at::Tensor& parameter : net.parameters()) {
    auto own = std::make_unique<Options>(options);
    if (!decay_all && parameter.dim() < 2) own->weight_decay(0);
    groups.emplace_back(std::vector<at::Tensor>{parameter}, std::move(own));
  }
  return std::make_unique<Method>(std::move(groups), options);
}

std::vector<Snapshot> plain_loop(const Case& c) {
  const auto net = make_net(c.network);
  const config::OptimizerConfig options = optimizer_options(c.adamw);
  const bool all = options.decay_norms_and_biases;
  const std::unique_ptr<torch::optim::Optimizer> optimizer =
      c.adamw ? grouped<torch::optim::AdamW>(
                    *net, all, torch::optim::AdamWOptions(kRate).weight_decay(options.weight_decay))
              : grouped<torch::optim::SGD>(*net, all,
                                           torch::optim::SGDOptions(kRate)
                                               .momentum(options.momentum)
                                               .weight_decay(options.weight_decay));
  std::vector<Snapshot> trace;
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    const auto [loss, weight] = loss_of(*net, global_batch(step));
    (loss / weight).backward();
    if (options.clip_norm > 0) nn::utils::clip_grad_norm_(net->parameters(), options.clip_norm);
    optimizer->step();
    Snapshot now{(loss / weight).item<double>(), 1, 0, {}};
    for (const at::Tensor& parameter : net->parameters())
      now.parameters.push_back(parameter.detach().clone());
    trace.push_back(std::move(now));
  }
  return trace;
}

void expect_equal(const std::vector<Snapshot>& expected, const std::vector<Snapshot>& actual,
                  double bound) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t step = 0; step < expected.size(); ++step) {
    ASSERT_NEAR(expected[step].loss, actual[step].loss,
                bound * std::max(1.0, std::abs(expected[step].loss)))
        << step;
    for (size_t i = 0; i < expected[step].parameters.size(); ++i) {
      const at::Tensor &a = expected[step].parameters[i], &b = actual[step].parameters[i];
      const double difference = (a - b).abs().max().item<double>();
      ASSERT_LE(difference, bound * std::max(1.0, a.abs().max().item<double>()))
          << "step " << step << ", parameter " << i;
    }
  }
}

class WorldInvariance : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(WorldInvariance, RanksMicroStepsAndBucketsDoNotChangeTheResult) {
  const auto [network, adamw] = GetParam();
  const double bound = adamw ? 1e-10 : 1e-12;
  const auto one_rank = train_ranks({network, adamw})[0];
  EXPECT_LT(one_rank.back().loss, one_rank.front().loss)
      << "nothing was learned, so the comparison would show nothing";
  {
    SCOPED_TRACE("one rank and the plain loop");
    expect_equal(plain_loop({network, adamw}), one_rank, bound);
  }
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int accumulate : {1, 2, 5}) {
      // Every bucket size with every number of ranks and every number of micro-steps, but not with
      // every pair of them.
      const int64_t cap_bytes = std::array<int64_t, 3>{1, 400, 1 << 20}[(ranks + accumulate) % 3];
      SCOPED_TRACE(
          str(ranks, " ranks, ", accumulate, " micro-steps, buckets of ", cap_bytes, " bytes"));
      const auto traces = train_ranks({network, adamw, ranks, accumulate, cap_bytes});
      expect_equal(one_rank, traces[0], bound);
      for (int rank = 1; rank < ranks; ++rank) {
        SCOPED_TRACE(str("rank ", rank, " and rank 0, bit for bit"));
        expect_equal(traces[0], traces[static_cast<size_t>(rank)], 0);
      }
    }
  }
}

// The ranks of one host, in its shared memory, and of two, of which the second has more: added up
// within each first.
TEST_P(WorldInvariance, HostsDoNotChangeTheResult) {
  using dist::WithinHost;
  const auto [network, adamw] = GetParam();
  const double bound = adamw ? 1e-10 : 1e-12;
  const auto one_rank = train_ranks({network, adamw})[0];
  int placement = 0;
  for (const auto& [hosts, within] :
       {std::pair{1, WithinHost::kSharedMemory}, std::pair{2, WithinHost::kThreads},
        std::pair{2, WithinHost::kSharedMemory}}) {
    for (const int ranks : {2, 3, 4, 7}) {
      // Every number of micro-steps with every number of ranks, each in another placement.
      const int accumulate = std::array{1, 2, 5}[static_cast<size_t>(ranks + placement) % 3];
      Case c{network, adamw, ranks, accumulate, 400};
      for (int rank = 0; rank < ranks; ++rank)
        c.hosts.push_back(hosts == 2 && rank >= ranks / 2 ? 1 : 0);
      c.within = within;
      SCOPED_TRACE(str(ranks, " ranks on ", hosts,
                       within == WithinHost::kThreads ? " hosts, " : " with shared memory, ",
                       accumulate, " micro-steps"));
      const auto traces = train_ranks(c);
      expect_equal(one_rank, traces[0], bound);
      for (int rank = 1; rank < ranks; ++rank)
        expect_equal(traces[0], traces[static_cast<size_t>(rank)], 0);
    }
    ++placement;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, WorldInvariance,
                         ::testing::Combine(::testing::Values("conv", "lstm", "frozen batch norm"),
                                            ::testing::Bool()));

// The bound of dist/bucket_transfer.h, per step: what SGD adds up of it in this run stays below one
// percent of what the run has learned, and ranks still agree in each bit.
TEST(WorldInvariance, ANarrowWireStaysNearTheExactRun) {
  for (const char* network : {"conv", "lstm"}) {
    const auto exact = train_ranks({network, false, 3, 2, 400})[0];
    const std::shared_ptr<Net> begin = make_net(network);
    for (const auto& [wire, bound] :
         {std::pair{at::kBFloat16, 1e-2}, std::pair{at::kHalf, 1.3e-3}}) {
      SCOPED_TRACE(str(network, " with ", c10::toString(wire)));
      const auto traces = train_ranks({network, false, 3, 2, 400, wire});
      for (size_t rank = 1; rank < traces.size(); ++rank) expect_equal(traces[0], traces[rank], 0);
      double difference = 0, learned = 0;
      for (size_t i = 0; i < begin->parameters().size(); ++i) {
        const at::Tensor& end = exact.back().parameters[i];
        difference += (traces[0].back().parameters[i] - end).square().sum().item<double>();
        learned += (end - begin->parameters()[i]).square().sum().item<double>();
      }
      EXPECT_LE(std::sqrt(difference / learned), bound);
      EXPECT_GT(difference, 0) << "nothing was rounded";
    }
  }
}

TEST(WorldInvariance, AnInfiniteGradientOnOneRankMakesAllSkip) {
  Case c{"conv", true, 3, 2, 400};
  c.spoil = [](int64_t step, int rank, at::Tensor& loss) {
    if (rank == 1 && (step == 4 || step == 9))
      loss = loss * std::numeric_limits<double>::infinity();
  };
  const auto traces = train_ranks(c);
  for (const auto& trace : traces) {
    for (int64_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(trace[step].skipped, (step >= 4) + (step >= 9));
      EXPECT_EQ(trace[step].scale, 65536.0 / (step >= 9 ? 4 : step >= 4 ? 2 : 1));
      for (size_t i = 0; step > 0 && i < trace[step].parameters.size(); ++i) {
        const bool same = trace[step].parameters[i].equal(trace[step - 1].parameters[i]);
        EXPECT_EQ(same, step == 4 || step == 9) << "step " << step << ", parameter " << i;
      }
    }
    for (size_t i = 0; i < trace.back().parameters.size(); ++i) {
      EXPECT_TRUE(trace.back().parameters[i].equal(traces[0].back().parameters[i]));
    }
  }
}

}  // namespace
}  // namespace dtrain
