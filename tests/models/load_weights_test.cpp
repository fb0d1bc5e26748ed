#include <gmock/gmock.h>

#include <limits>

#include "core/error.h"
#include "models/image_networks.h"
#include "models/load_weights.h"
#include "models/parameter_format.h"
#include "support/expect_error.h"
#include "text/strings.h"

namespace dtrain::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// All tensors of the network, as a file would contain them.
checkpoint::TensorFile file_of(const Network& network) {
  checkpoint::TensorFile file;
  for (const auto& item : network.named_parameters())
    file.tensors.emplace_back(item.key(), item.value().detach().clone());
  for (const auto& item : network.named_buffers())
    file.tensors.emplace_back(item.key(), item.value().clone());
  return file;
}

at::Tensor& in(checkpoint::TensorFile& file, const std::string& name) {
  for (auto& [key, tensor] : file.tensors) {
    if (key == name) return tensor;
  }
  throw std::runtime_error("no " + name);
}

void erase(checkpoint::TensorFile& file, const std::function<bool(const std::string&)>& matches) {
  std::erase_if(file.tensors, [&](const auto& item) { return matches(item.first); });
}

std::string refusal(Network& network, const checkpoint::TensorFile& file) {
  const at::Tensor before = network.parameters().front().clone();
  try {
    load_initial_weights(network, file);
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(at::equal(before, network.parameters().front())) << "something was copied";
    return error.what();
  }
  return "no error";
}

TEST(LoadInitialWeights, TakesAllOfAFittingFile) {
  const auto source = make_network("resnet18", {.seed = 1}),
             target = make_network("resnet18", {.seed = 2});
  source->named_buffers()["bn1.running_mean"].fill_(0.5);
  set_channels_last(*target);
  EXPECT_THAT(load_initial_weights(*target, file_of(*source)), ElementsAre("loaded 122 tensors"));
  for (const auto& item : source->named_parameters()) {
    EXPECT_TRUE(at::equal(item.value(), target->named_parameters()[item.key()])) << item.key();
  }
  EXPECT_TRUE(
      target->named_parameters()["conv1.weight"].is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(target->named_buffers()["bn1.running_mean"][0].item<float>(), 0.5);
}

TEST(LoadInitialWeights, KeepsOnlyTheLastLayerOfEveryNetwork) {
  for (const std::string& name : network_names()) {
    const auto source = make_network(name, {.outputs = 9, .seed = 1, .image_size = 32});
    const auto target = make_network(name, {.outputs = 3, .seed = 2, .image_size = 32});
    const std::vector<std::string> lines = load_initial_weights(*target, file_of(*source));
    ASSERT_EQ(lines.size(), 4u) << name;
    EXPECT_TRUE(lines[2].starts_with(target->head_prefix() + "weight: [9, ")) << lines[2];
    const auto from = source->named_parameters(), to = target->named_parameters();
    for (const auto& item : to) {
      if (!item.key().starts_with(target->head_prefix())) {
        EXPECT_TRUE(at::equal(item.value(), from[item.key()])) << name << " " << item.key();
      }
    }
  }
}

TEST(LoadInitialWeights, ConvertsThePrecision) {
  const auto source = make_network("headpose_cnn", {.seed = 1}),
             target = make_network("headpose_cnn", {.seed = 2});
  checkpoint::TensorFile file = file_of(*source);
  for (auto& [name, tensor] : file.tensors) {
    if (tensor.is_floating_point()) tensor = tensor.to(at::kHalf);
  }
  load_initial_weights(*target, file);
  const at::Tensor expected =
      source->named_parameters()["fc.0.weight"].to(at::kHalf).to(at::kFloat);
  EXPECT_TRUE(at::equal(target->named_parameters()["fc.0.weight"], expected));
}

TEST(LoadInitialWeights, KeepsAHeadOfAnotherSize) {
  const auto source = make_network("resnet18", {.outputs = 1000, .seed = 1});
  const auto target = make_network("resnet18", {.outputs = 3, .seed = 2}),
             fresh = make_network("resnet18", {.seed = 2});
  EXPECT_THAT(load_initial_weights(*target, file_of(*source)),
              ElementsAre("loaded 120 tensors", "the last layer keeps its fresh values:",
                          "fc.weight: [1000, 512] Float in the file; [3, 512] Float here",
                          "fc.bias: [1000] Float in the file; [3] Float here"));
  EXPECT_TRUE(
      at::equal(target->named_parameters()["fc.weight"], fresh->named_parameters()["fc.weight"]));
  EXPECT_TRUE(at::equal(target->named_parameters()["conv1.weight"],
                        source->named_parameters()["conv1.weight"]));
}

TEST(LoadInitialWeights, KeepsTheWholeHeadIfThatOfTheFileIsIncomplete) {
  const auto source = make_network("headpose_cnn", {.seed = 1});
  const auto target = make_network("headpose_cnn", {.seed = 2}),
             fresh = make_network("headpose_cnn", {.seed = 2});
  checkpoint::TensorFile file = file_of(*source);
  erase(file, [](const std::string& name) { return name == "fc.2.bias"; });
  const std::vector<std::string> lines = load_initial_weights(*target, file);
  EXPECT_EQ(lines.back(), "fc.2.bias: not in the file; [3] here");
  EXPECT_TRUE(at::equal(target->named_parameters()["fc.2.weight"],
                        fresh->named_parameters()["fc.2.weight"]));
  EXPECT_TRUE(at::equal(target->named_parameters()["fc.0.weight"],
                        source->named_parameters()["fc.0.weight"]));
}

TEST(LoadInitialWeights, AcceptsOldFilesWithoutCounters) {
  const auto source = make_network("resnet18", {.seed = 1}),
             target = make_network("resnet18", {.seed = 2});
  checkpoint::TensorFile file = file_of(*source);
  erase(file, [](const std::string& name) { return name.ends_with("num_batches_tracked"); });
  EXPECT_THAT(load_initial_weights(*target, file), ElementsAre("loaded 102 tensors"));
}

TEST(LoadInitialWeights, RejectsMissingUnexpectedAndMisshapenTensors) {
  const auto source = make_network("resnet18", {.seed = 1}),
             target = make_network("resnet18", {.seed = 2});
  checkpoint::TensorFile file = file_of(*source);
  in(file, "conv1.weight") = at::zeros({64, 1, 7, 7});
  in(file, "bn1.bias") = at::zeros({64}, at::kLong);
  erase(file, [](const std::string& name) { return name == "bn1.weight"; });
  file.tensors.emplace_back("surplus", at::zeros({2}));
  const std::string message = refusal(*target, file);
  EXPECT_THAT(message, HasSubstr("(4 tensors differ besides the last layer)"));
  EXPECT_THAT(
      message,
      HasSubstr("\n  conv1.weight: [64, 1, 7, 7] Float in the file; [64, 3, 7, 7] Float here"));
  EXPECT_THAT(message, HasSubstr("\n  bn1.weight: not in the file; [64] here"));
  EXPECT_THAT(message, HasSubstr("\n  bn1.bias: [64] Long in the file; [64] Float here"));
  EXPECT_THAT(message, HasSubstr("\n  surplus: [2] in the file; not here"));
}

TEST(LoadInitialWeights, RejectsAnotherNetworkWithAShortList) {
  const auto source = make_network("headpose_cnn", {}), target = make_network("resnet50", {});
  const std::string message = refusal(*target, file_of(*source));
  EXPECT_THAT(message, HasSubstr("conv1.weight: not in the file"));
  EXPECT_THAT(message, HasSubstr(" more"));
  EXPECT_LT(std::count(message.begin(), message.end(), '\n'), 25);
}

// Under other names, each behind `prefix`.
checkpoint::TensorFile wrapped(const std::string& prefix, checkpoint::TensorFile file) {
  for (auto& [name, tensor] : file.tensors) name.insert(0, prefix);
  return file;
}

std::vector<std::string> load_unwrapped(Network& network, checkpoint::TensorFile file) {
  Unwrapped result = unwrapped(network, file.tensors);
  file.tensors = std::move(result.tensors);
  const std::vector<std::string> lines = load_initial_weights(network, file);
  result.notices.insert(result.notices.end(), lines.begin(), lines.end());
  return result.notices;
}

TEST(Unwrapped, RemovesAPrefixThatAllNamesHave) {
  const auto source = make_network("headpose_cnn", {.seed = 1});
  const std::string loaded = dtrain::str("loaded ", file_of(*source).tensors.size(), " tensors");
  for (const std::string prefix :
       {"module.", "_orig_mod.", "model.", "net.", "backbone.", "encoder.", "module.model.",
        "module._orig_mod.", "fc.", "my.own.wrapper."}) {
    const auto target = make_network("headpose_cnn", {.seed = 2});
    EXPECT_THAT(load_unwrapped(*target, wrapped(prefix, file_of(*source))),
                ElementsAre("removed '" + prefix + "' from the names of all tensors", loaded));
    EXPECT_TRUE(at::equal(target->parameters().front(), source->parameters().front())) << prefix;
  }
}

TEST(Unwrapped, LeavesNamesThatTheNetworkKnows) {
  // All of this network's tensors begin with a word of their own.
  torch::nn::Module module;
  auto inner = std::make_shared<torch::nn::Module>();
  inner->register_parameter("weight", at::zeros({2}));
  inner->register_parameter("bias", at::zeros({2}));
  module.register_module("model", inner);
  const checkpoint::NamedTensors own = {{"model.weight", at::ones({2})},
                                        {"model.bias", at::ones({2})}};
  EXPECT_EQ(unwrapped(module, own).prefix, "");
  EXPECT_THAT(unwrapped(module, own).notices, IsEmpty());
  const checkpoint::NamedTensors nested = {{"model.model.weight", at::ones({2})},
                                           {"model.model.bias", at::ones({2})}};
  EXPECT_EQ(unwrapped(module, nested).prefix, "model.");
  // A prefix of some names alone stays.
  const checkpoint::NamedTensors mixed = {{"module.model.weight", at::ones({2})},
                                          {"model.bias", at::ones({2})}};
  EXPECT_EQ(unwrapped(module, mixed).prefix, "");
  EXPECT_EQ(unwrapped(module, mixed).tensors.front().first, "module.model.weight");
}

// `prefix`: of the tensors; `counter`: the name that AveragedModel gives its counter in them.
void expect_left_out(const std::string& prefix, const std::string& counter) {
  const auto network = make_network("headpose_cnn", {});
  checkpoint::TensorFile file = wrapped(prefix, file_of(*network));
  const size_t own = file.tensors.size();
  file.tensors.emplace_back(counter, at::full({}, 7, at::kLong));
  EXPECT_THAT(load_unwrapped(*network, file),
              ElementsAre("left out n_averaged, the counter of AveragedModel",
                          dtrain::str("removed '", prefix, "' from the names of all tensors"),
                          dtrain::str("loaded ", own, " tensors")));
}

TEST(Unwrapped, LeavesOutTheCounterOfAveragedModel) { expect_left_out("module.", "n_averaged"); }

// torch.compile() of an AveragedModel.
TEST(Unwrapped, LeavesOutTheCounterInAWrapper) {
  expect_left_out("_orig_mod.module.", "_orig_mod.n_averaged");
}

TEST(LoadInitialWeights, RefusesValuesThatTheNetworkCannotHold) {
  const auto network = make_network("headpose_cnn", {});
  checkpoint::TensorFile file = file_of(*network);
  auto& [name, tensor] = file.tensors.front();
  tensor = tensor.to(at::kDouble).fill_(1e300);
  dtrain::testing::expect_error<CheckpointError>([&] { load_initial_weights(*network, file); },
                                                 {name, "too large for Float", "inf at [0"});
}

TEST(Unwrapped, ConvertsCounters) {
  const auto network = make_network("resnet18", {.seed = 1});
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kInt, at::kShort, at::kByte}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}}) {
      checkpoint::TensorFile file = file_of(*network);
      const int64_t count = 40 + static_cast<int64_t>(type);
      for (auto& [name, tensor] : file.tensors) {
        if (name.ends_with("num_batches_tracked")) tensor = at::full(shape, count, type);
      }
      EXPECT_THAT(load_unwrapped(*network, file), ElementsAre("loaded 122 tensors"))
          << at::toString(type);
      EXPECT_EQ(network->named_buffers()["bn1.num_batches_tracked"].item<int64_t>(), count);
    }
  }
  checkpoint::TensorFile file = file_of(*network);
  in(file, "bn1.bias") = at::zeros({64}, at::kLong);  // no counter
  EXPECT_THROW(load_unwrapped(*network, file), CheckpointError);
}

TEST(CheckFinite, NamesTheTensorAndTheFile) {
  const auto network = make_network("resnet18", {.seed = 1});
  checkpoint::TensorFile file = file_of(*network);
  EXPECT_NO_THROW(check_finite(*network, file.tensors, "a.safetensors"));
  for (const std::string name : {"layer1.0.conv1.weight", "bn1.running_var"}) {
    checkpoint::TensorFile bad = file_of(*network);
    in(bad, name).view(-1)[5] = std::numeric_limits<float>::infinity();
    try {
      check_finite(*network, wrapped("module.", bad).tensors, "a.safetensors", "module.");
      ADD_FAILURE() << name;
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.safetensors: tensor 'module." + name +
                                          "' has a value that is not finite (inf"));
    }
  }
}

// Such as a causal mask of a TorchScript file.
TEST(CheckFinite, ABufferMayHaveWhatItsModuleHas) {
  const at::Tensor mask = at::full({2, 2}, -std::numeric_limits<float>::infinity());
  torch::nn::Module module;
  module.register_buffer("mask", mask);
  module.register_buffer("statistic", at::ones({2}));
  module.register_parameter("weight", at::ones({2}));
  EXPECT_NO_THROW(check_finite(module, {{"mask", mask}, {"weight", at::ones({2})}}, "f"));
  EXPECT_NO_THROW(check_finite(module, {{"local.mask", mask}}, "f", "local."));
  EXPECT_THROW(check_finite(module, {{"statistic", mask}}, "f"), CheckpointError);
  EXPECT_THROW(check_finite(module, {{"weight", mask}}, "f"), CheckpointError);
  EXPECT_THROW(check_finite(module, {{"exp_avg.mask", mask}}, "f"), CheckpointError);
}

}  // namespace
}  // namespace dtrain::models
