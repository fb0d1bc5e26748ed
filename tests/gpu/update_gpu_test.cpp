// The parts of an update on a GPU as on the CPU: the reducer while the device is busy, loss
// scaling, clipping, the optimizers, averaged weights, the record of losses that are not finite,
// and the numbers of a step.

#include <limits>

#include "core/random.h"
#include "dist/gradient_reducer.h"
#include "dist/lone_communicator.h"
#include "dist/staged_communicator.h"
#include "gpu/gpu_pair.h"
#include "layers/dropout.h"
#include "support/add_loss.h"
#include "text/strings.h"
#include "train/bad_loss.h"
#include "train/clip.h"
#include "train/grad_scaler.h"
#include "train/note_losses.h"
#include "train/optimizer.h"
#include "train/step_state.h"
#include "train/weight_average.h"

namespace dtrain::train {
namespace {

using testing::bound;
using testing::difference;
using testing::gpu;

constexpr double kInf = std::numeric_limits<double>::infinity();

class UpdateOnAGpu : public testing::GpuTest {};

at::Tensor keyed_tensor(at::IntArrayRef sizes, uint64_t key, at::ScalarType dtype) {
  const at::Tensor made = at::empty(sizes, at::kDouble);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data_ptr<double>()[i] = 2.0 * uniform01(keyed(key, i)) - 1;
  return made.to(dtype);
}

// A convolution in channels_last, a norm, and a matrix, whose gradients are views of a flat bucket
// as the reducer's.
struct Network {
  Network(at::Device device, at::ScalarType dtype) {
    const auto add = [&](const char* name, at::IntArrayRef sizes, at::MemoryFormat format) {
      const at::Tensor tensor =
          keyed_tensor(sizes, parameters.size() + 1, dtype).to(device).contiguous(format);
      parameters.push_back({name, tensor.set_requires_grad(true)});
    };
    add("conv.weight", {8, 3, 3, 3}, at::MemoryFormat::ChannelsLast);
    add("norm.weight", {8}, at::MemoryFormat::Contiguous);
    add("fc.weight", {5, 8}, at::MemoryFormat::Contiguous);
    int64_t elements = 0;
    for (const auto& parameter : parameters) elements += parameter.tensor.numel();
    flat = at::zeros({elements}, at::TensorOptions(device).dtype(dtype));
    int64_t begin = 0;
    for (const auto& [name, tensor] : parameters) {
      tensor.mutable_grad() = flat.as_strided(tensor.sizes(), tensor.strides(), begin);
      begin += tensor.numel();
    }
  }
  void set_gradients(uint64_t step, double spoil = 0) const {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& tensor = parameters[i].tensor;
      tensor.mutable_grad().copy_(
          keyed_tensor(tensor.sizes(), keyed(step, i), tensor.scalar_type()));
    }
    if (spoil != 0) flat[7] = spoil;
  }
  std::vector<dist::NamedParameter> parameters;
  at::Tensor flat;
};

at::Tensor rate_on(at::Device device) {
  return at::full({}, 0.05,
                  at::TensorOptions(device).dtype(device.is_cpu() ? at::kDouble : at::kFloat));
}

std::vector<config::OptimizerConfig> optimizers() {
  std::vector<config::OptimizerConfig> list;
  for (const bool all : {false, true}) {
    for (const auto name : {config::OptimizerName::kAdamW, config::OptimizerName::kAdam,
                            config::OptimizerName::kSgd}) {
      for (const double momentum : {0.9, 0.0}) {
        if (name != config::OptimizerName::kSgd && momentum == 0) continue;
        config::OptimizerConfig o;
        o.name = name;
        o.momentum = momentum;
        o.weight_decay = 0.1;
        o.decay_norms_and_biases = all;
        o.clip_norm = 1;
        o.clip_value = all ? 0.5 : 0;
        list.push_back(o);
      }
    }
  }
  return list;
}

// The whole update: scaled gradients, one of them infinite in one step, which both devices skip.
TEST_F(UpdateOnAGpu, IsThatOfTheCpuWithEachOptimizer) {
  for (const config::OptimizerConfig& options : optimizers()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(str(options.name, ", momentum ", options.momentum, ", ", c10::toString(dtype)));
      const Network here(at::kCPU, dtype), there(gpu(), dtype);
      struct Side {
        const Network& network;
        Optimizer optimizer;
        GradScaler scaler;
        at::Device device;
      };
      const config::Amp amp{.init_scale = 1024, .growth_interval = 2};
      Side sides[] = {{here, Optimizer(options, here.parameters),
                       GradScaler(amp, true, at::kCPU, dtype), at::kCPU},
                      {there, Optimizer(options, there.parameters),
                       GradScaler(amp, true, gpu(), dtype), gpu()}};
      for (uint64_t step = 0; step < 6; ++step) {
        for (Side& side : sides) {
          side.network.set_gradients(step, step == 3 ? kInf : 0);
          const at::Tensor weight = at::full({}, 4, side.network.flat.options());
          side.scaler.unscale({side.network.flat}, weight, 3);
          const at::Tensor factor = clip({side.network.flat}, side.scaler.norm(), options);
          side.optimizer.step(rate_on(side.device), factor, side.scaler.found_inf(),
                              side.scaler.taken());
          side.scaler.update();
        }
        const auto state = sides[0].scaler.state(), on_gpu = sides[1].scaler.state();
        EXPECT_EQ(on_gpu.scale, state.scale) << step;
        EXPECT_EQ(on_gpu.growth_tracker, state.growth_tracker) << step;
        EXPECT_EQ(on_gpu.skipped, step < 3 ? 0 : 1) << step;
        EXPECT_EQ(sides[1].scaler.found_inf().item<float>(), step == 3 ? 1 : 0) << step;
        if (step != 3) {
          EXPECT_LE(difference(sides[1].scaler.norm(), sides[0].scaler.norm()), bound(dtype))
              << step;
        }
        for (size_t i = 0; i < here.parameters.size(); ++i) {
          EXPECT_LE(difference(there.parameters[i].tensor, here.parameters[i].tensor),
                    bound(at::kFloat))
              << here.parameters[i].name << " at step " << step;
        }
      }
      const auto saved = sides[0].optimizer.state(), of_gpu = sides[1].optimizer.state();
      ASSERT_EQ(saved.size(), of_gpu.size());
      for (size_t i = 0; i < saved.size(); ++i) {
        EXPECT_EQ(of_gpu[i].first, saved[i].first);
        EXPECT_LE(difference(of_gpu[i].second, saved[i].second), bound(at::kFloat))
            << saved[i].first;
      }
    }
  }
}

struct OneWeight : torch::nn::Module {
  explicit OneWeight(at::Device device) {
    weight = register_parameter("weight", at::zeros({100}, at::TensorOptions(device)));
  }
  at::Tensor weight;
};

TEST_F(UpdateOnAGpu, AveragesWeightsAsTheCpu) {
  OneWeight here(at::kCPU), there(gpu());
  WeightAverage average_here(here, 0.75), average_there(there, 0.75);
  for (int step = 0; step < 5; ++step) {
    const at::NoGradGuard no_grad;
    here.weight.copy_(keyed_tensor({100}, step, at::kFloat));
    there.weight.copy_(here.weight);
    average_here.update(at::full({}, step == 2 ? 0.0f : 1.0f));  // a skipped step does not count
    average_there.update(at::full({}, step == 2 ? 0.0f : 1.0f, at::TensorOptions(gpu())));
  }
  const WeightAverage::Scope a(average_here), b(average_there);
  EXPECT_LE(difference(there.weight, here.weight), bound(at::kFloat));
}

TEST_F(UpdateOnAGpu, NotesLosses) {
  BadLosses losses(gpu());
  const LossNotes notes{at::zeros({2}, at::TensorOptions(gpu()).dtype(at::kDouble)),
                        losses.record()};
  const GradScaler scaler({.init_scale = 1024}, /*enabled=*/true, gpu(), at::kFloat);
  const auto note = [&](const at::Tensor& per_sample, int64_t first_id, const at::Tensor& weight) {
    const at::Tensor ids =
        at::arange(first_id, first_id + 3, at::TensorOptions(gpu()).dtype(at::kLong));
    return note_losses({per_sample.to(gpu()), weight}, ids, scaler, /*power_of_two=*/3, notes);
  };
  const at::Tensor on_gpu = at::full({}, 2.5f, at::TensorOptions(gpu()));
  const at::Tensor gradient =
      note(at::tensor({1.0f, 2.0f, 3.0f}), 10, at::full({}, 3, at::kDouble));
  EXPECT_EQ(difference(gradient, at::full({3}, 128.0f)), 0);
  note(at::tensor({1.0, 4.0, 3.0}), 20, on_gpu);
  EXPECT_EQ(difference(notes.sums, at::tensor({14.0, 5.5})), 0);
  note(at::tensor({1.0, kInf, 3.0}), 30, on_gpu);
  const auto host = dist::make_lone_communicator();
  const BadLosses::Found found = losses.gather(*host);
  EXPECT_EQ(found.bad, 1);
  EXPECT_EQ(found.of, 3);
  EXPECT_EQ(found.ids, std::vector<int64_t>{31});
}

// The device is far behind the host when the buckets leave: whatever is not ordered by events reads
// old gradients.
TEST_F(UpdateOnAGpu, TheReducerWaitsForABusyDevice) {
  const at::Device device = gpu();
  const auto host = dist::make_lone_communicator();
  const auto gradients = dist::make_staged_communicator(dist::make_lone_communicator(), device);
  const Network network(device, at::kFloat);
  for (const auto& parameter : network.parameters) parameter.tensor.mutable_grad() = at::Tensor();
  dist::GradientReducer reducer(network.parameters, *gradients, *host,
                                {.cap_bytes = 512, .first_bytes = 128});
  const int64_t size = device.is_cuda() ? 2048 : 32;
  const at::Tensor ballast = at::ones({size, size}, at::TensorOptions(device));
  for (int step = 0; step < 4; ++step) {
    at::Tensor product = ballast;
    for (int i = 0; i < 200; ++i)
      product = at::matmul(product, ballast).mul_(1.0 / static_cast<double>(size));
    const at::Tensor factor = product[0][0] + step;  // known only after the ballast: 1 + step
    at::Tensor loss = at::zeros({}, at::TensorOptions(device));
    for (const auto& parameter : network.parameters)
      loss = loss + (parameter.tensor * factor).sum();
    reducer.arm(true);
    dist::add_loss(reducer, loss, at::ones({}, at::TensorOptions(device)));
    loss.backward();
    reducer.finish();
    EXPECT_NEAR(reducer.weight_sum().item<double>(), 1, 0);
    for (const auto& parameter : network.parameters) {
      EXPECT_LE(difference(parameter.tensor.grad(), at::full(parameter.tensor.sizes(), 1.0 + step)),
                1e-3)
          << parameter.name << " in step " << step;
    }
    reducer.zero();
  }
}

// The host runs ahead: each operator sees the numbers that were written last before it was queued,
// at one address.
TEST_F(UpdateOnAGpu, AStepSeesItsOwnNumbers) {
  constexpr int64_t kSteps = 50;
  StepState state(gpu());
  const void* place = state.learning_rate().const_data_ptr();
  const at::Tensor ids = at::arange(3).to(gpu()),
                   ones = at::ones({3, 40}, at::TensorOptions(gpu()));
  const auto masked = [&](const layers::RandomContext& context) {
    const layers::RandomScope scope(context);
    return layers::keyed_dropout(ones, 0.4, 1);
  };
  std::vector<at::Tensor> numbers, rates, masks;
  for (int64_t step = 0; step < kSteps; ++step) {
    state.write({.seed = ~uint64_t{0},
                 .step = step,
                 .epoch = 100 + step,
                 .learning_rate = 1.0 / double(3 + step)});
    const layers::RandomContext context = state.randomness(ids);
    numbers.push_back(at::stack({context.seed, context.step, context.epoch}));
    rates.push_back(state.learning_rate().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
    masks.push_back(masked(context));
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto i = static_cast<size_t>(step);
    EXPECT_TRUE(at::equal(numbers[i].cpu(), at::tensor({int64_t{-1}, step, 100 + step}, at::kLong)))
        << step;
    EXPECT_FLOAT_EQ(static_cast<float>(rates[i].item<double>()),
                    1.0f / static_cast<float>(3 + step));
    EXPECT_TRUE(at::equal(masks[i], masked(layers::random_context(~uint64_t{0}, step, ids))))
        << step;
  }
  EXPECT_EQ(state.learning_rate().const_data_ptr(), place);
}

}  // namespace
}  // namespace dtrain::train
