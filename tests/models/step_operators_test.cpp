// What a training step costs beside its arithmetic: copies of tensors. A copy that comes back, such
// as a reorder of a gradient to the format of its parameter, shows here on any machine.

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "layers/dropout.h"
#include "layers/lengths.h"
#include "models/cnn_lstm.h"
#include "models/image_networks.h"
#include "models/parameter_format.h"
#include "models/pointer_network.h"
#include "os/vector_set.h"

namespace dtrain::models {
namespace {

struct Counts {
  int64_t copies = 0;   // of tensors
  int64_t tensors = 0;  // that operators allocate
};

// Counts operators, on all threads, while it lives. One at a time.
class OperatorCounts {
 public:
  OperatorCounts() {
    counts_ = {};
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& fn) {
                                      add(fn);
                                      return std::unique_ptr<at::ObserverContext>();
                                    }).scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorCounts() { at::removeCallback(handle_); }
  OperatorCounts(const OperatorCounts&) = delete;
  OperatorCounts& operator=(const OperatorCounts&) = delete;

  Counts counts() const { return counts_; }

 private:
  static void add(const at::RecordFunction& fn) {
    const std::string_view name = fn.name();
    const std::lock_guard lock(mutex_);
    if (name == "aten::copy_") ++counts_.copies;
    if (name == "aten::empty" || name == "aten::empty_strided") ++counts_.tensors;
  }

  at::CallbackHandle handle_;
  static inline std::mutex mutex_;
  static inline Counts counts_;
};

// Gradients as the reducer prepares them: there before the first step, with the strides of
// the parameters.
void prepare(torch::nn::Module& module) {
  set_channels_last(module);
  module.train();
  for (at::Tensor& p : module.parameters()) {
    p.mutable_grad() =
        at::empty_strided(p.sizes(), p.strides(), p.options().requires_grad(false)).zero_();
  }
}

Counts operators_of_step(const std::function<at::Tensor()>& loss, int64_t samples) {
  const layers::RandomScope randomness(layers::random_context(1, 0, at::arange(samples)));
  loss().backward();  // the first step makes what later ones keep
  const OperatorCounts counts;
  loss().backward();
  return counts.counts();
}

constexpr int64_t kSamples = 4;

Counts of_images(const std::string& name, int64_t size) {
  const auto network = make_network(name, {.outputs = 5, .image_size = size});
  prepare(*network);
  const at::Tensor images =
      at::randn({kSamples, 3, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor targets = at::tensor({0, 1, 2, 3}, at::kLong);
  return operators_of_step(
      [&] { return at::cross_entropy_loss(network->forward(images), targets); }, kSamples);
}

// Lengths of 3, 6, ...
at::Tensor lengths_of(int64_t longest) {
  return at::arange(longest / kSamples, longest + 1, longest / kSamples);
}

Counts of_sequences(bool rebuilds) {
  CnnLstm network({.features = 3, .classes = 4, .hidden = 32});
  prepare(network);
  const at::Tensor lengths = lengths_of(24), targets = at::arange(kSamples),
                   valid = layers::valid_positions(lengths, 24).unsqueeze(2),
                   rows = at::randn({kSamples, 24, 3}) * valid;
  return operators_of_step(
      [&] {
        return rebuilds ? network.rebuild(rows, lengths).square().sum()
                        : at::cross_entropy_loss(network.classify(rows, lengths), targets);
      },
      kSamples);
}

Counts of_sets() {
  PointerNetwork network({.hidden = 32});
  prepare(network);
  const Sets sets{at::rand({kSamples, 12, 8}), lengths_of(12), true};
  const at::Tensor order = at::arange(12).expand({kSamples, 12}).contiguous();
  return operators_of_step(
      [&] { return network.losses(sets, network.encode(sets), order, order).sum(); }, kSamples);
}

void expect_at_most(const Counts& most, const Counts& counts, const std::string& network) {
  EXPECT_LE(counts.copies, most.copies) << network;
  EXPECT_LE(counts.tensors, most.tensors) << network;
}

// A little above what they are, by less than one for each convolution, where the network has any.
// Most copies are of the statistics of batch norm, one number per channel.
TEST(StepOperators, CopiesAndNewTensorsAreFew) {
  if (widest_vectors() == VectorSet::kAny)
    GTEST_SKIP() << "without AVX2 LibTorch's convolutions copy more";
  expect_at_most({.copies = 69, .tensors = 120}, of_images("headpose_cnn", 64), "headpose_cnn");
  expect_at_most({.copies = 12, .tensors = 38}, of_images("simple_cnn", 64), "simple_cnn");
  expect_at_most({.copies = 710, .tensors = 1180}, of_images("mobilenet_v2", 64), "mobilenet_v2");
  expect_at_most({.copies = 254, .tensors = 434}, of_images("resnet18", 64), "resnet18");
  expect_at_most({.copies = 620, .tensors = 1050}, of_images("resnet50", 64), "resnet50");
  expect_at_most({.copies = 73, .tensors = 110}, of_sequences(false), "cnn_lstm, classes");
  expect_at_most({.copies = 80, .tensors = 128}, of_sequences(true), "cnn_lstm, reconstruction");
  expect_at_most({.copies = 66, .tensors = 98}, of_sets(), "pointer_network");
}

}  // namespace
}  // namespace dtrain::models
