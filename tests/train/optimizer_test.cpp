#include "train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "core/error.h"
#include "core/random.h"
#include "text/strings.h"
#include "train/clip.h"
#include "train/grad_scaler.h"

namespace dtrain::train {
namespace {

using ::testing::HasSubstr;

constexpr double kRate = 0.05;

at::Tensor rate() { return at::full({}, kRate, at::kDouble); }
at::Tensor flag(bool value) { return at::full({}, value ? 1.0f : 0.0f); }

at::Tensor keyed_tensor(at::IntArrayRef sizes, uint64_t key, at::ScalarType dtype) {
  const at::Tensor made = at::empty(sizes, at::kDouble);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data_ptr<double>()[i] = 2.0 * uniform01(keyed(key, i)) - 1;
  return made.to(dtype);
}

// A convolution's weight in the given format and a bias.
std::vector<dist::NamedParameter> make_parameters(at::ScalarType dtype, at::MemoryFormat format) {
  return {{"weight", keyed_tensor({5, 3, 3, 7}, 1, dtype).contiguous(format).requires_grad_(true)},
          {"bias", keyed_tensor({37}, 2, dtype).requires_grad_(true)}};
}

// Gradients as the reducer leaves them: with the parameter's strides.
void set_gradients(const std::vector<dist::NamedParameter>& parameters, uint64_t step) {
  for (const auto& [name, p] : parameters) {
    const at::Tensor gradient =
        at::empty_strided(p.sizes(), p.strides(), p.options().requires_grad(false));
    gradient.copy_(keyed_tensor(p.sizes(), keyed(step, name.size()), p.scalar_type()));
    p.mutable_grad() = gradient;
  }
}

// A group of its own for each parameter, because norms and biases may not decay.
template <typename Method, typename Options>
std::unique_ptr<torch::optim::Optimizer> grouped(const std::vector<at::Tensor>& parameters,
                                                 bool decay_all, const Options& options) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const at::Tensor& parameter : parameters) {
    auto own = std::make_unique<Options>(options);
    if (!decay_all && parameter.dim() < 2) own->weight_decay(0);
    groups.emplace_back(std::vector<at::Tensor>{parameter}, std::move(own));
  }
  // LibTorch 2.15 takes a group's 0 for a value that was not given, and puts the default of all
  // groups in its place.
  Options defaults = options;
  defaults.weight_decay(0);
  return std::make_unique<Method>(std::move(groups), defaults);
}

std::unique_ptr<torch::optim::Optimizer> torch_loop(const config::OptimizerConfig& o,
                                                    const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  const bool all = o.decay_norms_and_biases;
  if (o.name == config::OptimizerName::kSgd) {
    return grouped<SGD>(
        parameters, all,
        SGDOptions(kRate).momentum(o.momentum).weight_decay(o.weight_decay).nesterov(o.nesterov));
  }
  const std::tuple<double, double> betas(o.beta1, o.beta2);
  if (o.name == config::OptimizerName::kAdam) {
    return grouped<Adam>(parameters, all,
                         AdamOptions(kRate).betas(betas).eps(o.eps).weight_decay(o.weight_decay));
  }
  return grouped<AdamW>(parameters, all,
                        AdamWOptions(kRate).betas(betas).eps(o.eps).weight_decay(o.weight_decay));
}

std::vector<config::OptimizerConfig> variants() {
  std::vector<config::OptimizerConfig> list;
  for (const auto& [decay, all] :
       {std::pair(0.0, false), std::pair(0.1, false), std::pair(0.1, true)}) {
    for (const auto name : {config::OptimizerName::kAdamW, config::OptimizerName::kAdam}) {
      config::OptimizerConfig o;
      o.name = name;
      o.weight_decay = decay;
      o.decay_norms_and_biases = all;
      list.push_back(o);
    }
    for (const auto& [momentum, nesterov] :
         {std::pair(0.0, false), std::pair(0.9, false), std::pair(0.9, true)}) {
      config::OptimizerConfig o;
      o.name = config::OptimizerName::kSgd;
      o.weight_decay = decay;
      o.decay_norms_and_biases = all;
      o.momentum = momentum;
      o.nesterov = nesterov;
      list.push_back(o);
    }
  }
  return list;
}

std::string label(const config::OptimizerConfig& o) {
  return str(o.name, ", decay ", o.weight_decay, o.decay_norms_and_biases ? " of all" : "",
             ", momentum ", o.momentum, o.nesterov ? ", nesterov" : "");
}

TEST(Optimizer, FusedEqualsTheLoopInEachMemoryFormat) {
  for (const config::OptimizerConfig& options : variants()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      for (const at::MemoryFormat format :
           {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        for (const bool clipped : {false, true}) {
          SCOPED_TRACE(str(label(options), ", ", c10::toString(dtype),
                           format == at::MemoryFormat::Contiguous ? "" : " NHWC",
                           clipped ? " clipped" : ""));
          const auto mine = make_parameters(dtype, format), theirs = make_parameters(dtype, format);
          Optimizer optimizer(options, mine);
          const auto loop = torch_loop(options, {theirs[0].tensor, theirs[1].tensor});
          for (uint64_t step = 0; step < 6; ++step) {
            set_gradients(mine, step);
            set_gradients(theirs, step);
            at::Tensor clip;
            if (clipped) {
              const at::Tensor norm = at::linalg_vector_norm(
                  at::stack({at::linalg_vector_norm(mine[0].tensor.grad()),
                             at::linalg_vector_norm(mine[1].tensor.grad())}));
              clip = clip_factor(norm, 2.0);
              ASSERT_LT(clip.item<double>(), 1);
              for (const auto& p : theirs) p.tensor.mutable_grad().mul_(clip);
            }
            optimizer.step(rate(), clip, flag(false), flag(true));
            loop->step();
            for (size_t i = 0; i < mine.size(); ++i) {
              const double difference =
                  (mine[i].tensor - theirs[i].tensor).abs().max().item<double>();
              ASSERT_LE(difference, dtype == at::kFloat ? 2e-6 : 1e-14)
                  << mine[i].name << " at step " << step;
            }
          }
        }
      }
    }
  }
}

// The groups of the step before are used again only for the same gradients.
TEST(Optimizer, TakesTheGradientsOfEachStep) {
  for (const config::OptimizerConfig& options : variants()) {
    SCOPED_TRACE(label(options));
    const auto kept = make_parameters(at::kDouble, at::MemoryFormat::Contiguous),
               fresh = make_parameters(at::kDouble, at::MemoryFormat::Contiguous);
    Optimizer of_kept(options, kept), of_fresh(options, fresh);
    set_gradients(kept, 0);
    for (uint64_t step = 0; step < 6; ++step) {
      set_gradients(fresh, step);
      for (size_t i = 0; i < kept.size(); ++i) {
        if (step == 3 && i == 1) {  // none for one parameter, and then another tensor
          kept[i].tensor.mutable_grad() = at::Tensor();
          fresh[i].tensor.mutable_grad() = at::Tensor();
        } else if (step == 4 && i == 1) {
          kept[i].tensor.mutable_grad() = fresh[i].tensor.grad().clone();
        } else {
          kept[i].tensor.mutable_grad().copy_(fresh[i].tensor.grad());
        }
      }
      of_kept.step(rate(), {}, flag(false), flag(true));
      of_fresh.step(rate(), {}, flag(false), flag(true));
      for (size_t i = 0; i < kept.size(); ++i)
        EXPECT_TRUE(at::equal(kept[i].tensor, fresh[i].tensor)) << step;
    }
  }
}

// Three groups in one optimizer: a weight, a bias that decays only where all do, and a weight at a
// fifth of the rate.
TEST(Optimizer, GroupsHaveTheirOwnDecayAndRate) {
  for (config::OptimizerConfig options : variants()) {
    options.weight_decay = 0.1;
    SCOPED_TRACE(label(options));
    const auto make = [] {
      auto parameters = make_parameters(at::kDouble, at::MemoryFormat::Contiguous);
      parameters.push_back(
          {"encoder.weight", keyed_tensor({4, 9}, 3, at::kDouble).requires_grad_(true)});
      return parameters;
    };
    const auto mine = make(), theirs = make();
    Optimizer optimizer(options, mine, [](const std::string& name) {
      return name.starts_with("encoder.") ? 0.2 : 1;
    });
    const auto weight = torch_loop(options, {theirs[0].tensor}),
               bias = torch_loop(options, {theirs[1].tensor});
    const auto encoder = torch_loop(options, {theirs[2].tensor});
    encoder->param_groups()[0].options().set_lr(0.2 * kRate);
    for (uint64_t step = 0; step < 6; ++step) {
      set_gradients(mine, step);
      set_gradients(theirs, step);
      optimizer.step(rate(), {}, flag(false), flag(true));
      for (const auto& loop : {weight.get(), bias.get(), encoder.get()}) loop->step();
      for (size_t i = 0; i < mine.size(); ++i) {
        ASSERT_LE((mine[i].tensor - theirs[i].tensor).abs().max().item<double>(), 1e-14)
            << mine[i].name;
      }
    }
  }
}

TEST(Optimizer, SparesNormsAndBiasesByDefault) {
  const auto parameters = make_parameters(at::kDouble, at::MemoryFormat::Contiguous);
  EXPECT_TRUE(decays({}, parameters[0].tensor));
  EXPECT_FALSE(decays({}, parameters[1].tensor));
  EXPECT_TRUE(decays({.decay_norms_and_biases = true}, parameters[1].tensor));
}

TEST(Optimizer, ASkippedStepLeavesEverythingAsItWas) {
  for (const config::OptimizerConfig& options : variants()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(label(options));
      const auto skips = make_parameters(dtype, at::MemoryFormat::ChannelsLast);
      const auto never = make_parameters(dtype, at::MemoryFormat::ChannelsLast);
      Optimizer with_skips(options, skips), without(options, never);
      for (uint64_t step = 0; step < 4; ++step) {
        set_gradients(skips, 100 + step);
        for (const auto& p : skips)
          p.tensor.mutable_grad().fill_(std::numeric_limits<double>::quiet_NaN());
        const auto before = with_skips.state();
        with_skips.step(rate(), at::full({}, std::numeric_limits<double>::quiet_NaN(), dtype),
                        flag(true), flag(false));  // also the first
        const auto after = with_skips.state();
        for (size_t i = 0; i < before.size(); ++i)
          EXPECT_TRUE(before[i].second.equal(after[i].second)) << before[i].first;
        set_gradients(skips, step);
        set_gradients(never, step);
        with_skips.step(rate(), {}, flag(false), flag(true));
        without.step(rate(), {}, {}, {});
        for (size_t i = 0; i < skips.size(); ++i)
          EXPECT_TRUE(skips[i].tensor.equal(never[i].tensor));
      }
    }
  }
}

TEST(Optimizer, AGradientOfOtherStridesIsRefused) {
  const auto parameters = make_parameters(at::kFloat, at::MemoryFormat::ChannelsLast);
  Optimizer optimizer({}, parameters);
  set_gradients(parameters, 0);
  const at::Tensor& weight = parameters[0].tensor;
  weight.mutable_grad() = weight.grad().contiguous();
  try {
    optimizer.step(rate(), {}, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the gradient of weight has strides"));
  }
}

TEST(Optimizer, AParameterWithoutGradientIsLeftAlone) {
  const auto parameters = make_parameters(at::kFloat, at::MemoryFormat::Contiguous);
  Optimizer optimizer({}, parameters);
  const at::Tensor before = parameters[1].tensor.detach().clone();
  set_gradients(parameters, 0);
  parameters[1].tensor.mutable_grad() = at::Tensor();
  optimizer.step(rate(), {}, {}, {});
  EXPECT_TRUE(parameters[1].tensor.equal(before)) << "weight decay must not reach it";
}

TEST(Optimizer, GroupsDtypes) {
  const std::vector<dist::NamedParameter> parameters = {
      {"a", keyed_tensor({9}, 1, at::kFloat).requires_grad_(true)},
      {"bb", keyed_tensor({9}, 1, at::kDouble).requires_grad_(true)}};
  Optimizer optimizer({}, parameters);
  for (uint64_t step = 0; step < 3; ++step) {
    for (const auto& p : parameters) {
      p.tensor.mutable_grad() = keyed_tensor({9}, 50 + step, at::kFloat).to(p.tensor.scalar_type());
    }
    optimizer.step(rate(), {}, flag(false), flag(true));
  }
  EXPECT_TRUE(parameters[0].tensor.to(at::kDouble).allclose(parameters[1].tensor, 1e-5, 1e-6));
}

TEST(Optimizer, StateComesBackInAnyMemoryFormat) {
  for (const config::OptimizerConfig& options : variants()) {
    SCOPED_TRACE(label(options));
    const auto original = make_parameters(at::kFloat, at::MemoryFormat::ChannelsLast);
    Optimizer first(options, original);
    for (uint64_t step = 0; step < 3; ++step) {
      set_gradients(original, step);
      first.step(rate(), {}, flag(step == 1), flag(step != 1));
    }
    const auto state = first.state();
    const bool adam = options.name != config::OptimizerName::kSgd;
    ASSERT_EQ(state.size(), adam ? 5u : options.momentum > 0 ? 2u : 0u);
    for (const auto& [name, tensor] : state) EXPECT_TRUE(tensor.is_contiguous()) << name;
    if (adam) {
      EXPECT_EQ(state[0].first, "step");
      EXPECT_EQ(state[0].second.item<float>(), 2) << "the skipped step does not count";
      EXPECT_EQ(state[1].first, "exp_avg.weight");
    }
    const auto copies = make_parameters(at::kFloat, at::MemoryFormat::ChannelsLast);
    for (size_t i = 0; i < copies.size(); ++i)
      copies[i].tensor.detach().copy_(original[i].tensor.detach());
    Optimizer second(options, copies);
    second.load(state);
    set_gradients(original, 9);
    set_gradients(copies, 9);
    first.step(rate(), {}, {}, {});
    second.step(rate(), {}, {}, {});
    for (size_t i = 0; i < copies.size(); ++i)
      EXPECT_TRUE(copies[i].tensor.equal(original[i].tensor)) << i;
  }
}

TEST(Optimizer, AStateThatDoesNotFitIsRefusedWithItsName) {
  const auto refusal =
      [](const std::function<void(checkpoint::NamedTensors&)>& spoil) -> std::string {
    Optimizer optimizer({}, make_parameters(at::kFloat, at::MemoryFormat::Contiguous));
    checkpoint::NamedTensors state = optimizer.state();
    for (auto& entry : state) entry.second.fill_(7);
    spoil(state);
    try {
      optimizer.load(state);
    } catch (const CheckpointError& error) {
      for (const auto& entry : optimizer.state())
        EXPECT_EQ(entry.second.sum().item<float>(), 0) << "changed before the error";
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([](auto&) {}), "accepted");
  EXPECT_THAT(refusal([](auto& state) { state.pop_back(); }),
              HasSubstr("exp_avg_sq.bias is missing"));
  EXPECT_THAT(refusal([](auto& state) { state.back().second = at::zeros({36}); }),
              HasSubstr("exp_avg_sq.bias is Float [36] instead of Float [37]"));
  EXPECT_THAT(refusal([](auto& state) { state.back().second = at::zeros({37}, at::kDouble); }),
              HasSubstr("is Double [37]"));
  EXPECT_THAT(
      refusal([](auto& state) { state.emplace_back("momentum_buffer.bias", at::zeros({37})); }),
      HasSubstr("momentum_buffer.bias, which is unknown here"));
}

}  // namespace
}  // namespace dtrain::train
