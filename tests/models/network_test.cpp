#include "models/image_networks.h"

#include <gmock/gmock.h>

#include "config/table.h"
#include "core/error.h"
#include "layers/dropout.h"
#include "models/freeze.h"
#include "models/parameter_format.h"

namespace dtrain::models {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

at::Tensor images(int64_t count, int64_t size, uint64_t seed = 1) {
  at::manual_seed(seed);
  return at::randn({count, 3, size, size});
}

bool equal_parameters(const Network& a, const Network& b) {
  const auto left = a.named_parameters(), right = b.named_parameters();
  for (const auto& item : left) {
    if (!at::equal(item.value(), right[item.key()])) return false;
  }
  return left.size() == right.size();
}

TEST(Networks, TakeAnyImageFrom32Pixels) {
  const at::NoGradGuard no_grad;
  for (const std::string& name : network_names()) {
    for (const int64_t size : {32, 45, 96}) {
      const auto network = make_network(name, {.outputs = 5, .image_size = size});
      network->eval();
      EXPECT_EQ(network->forward(images(2, size)).sizes(), at::IntArrayRef({2, 5}))
          << name << " at " << size;
      EXPECT_EQ(network->forward(images(0, size)).sizes(), at::IntArrayRef({0, 5})) << name;
    }
  }
}

TEST(Networks, AreAllowedByTheConfiguration) {
  EXPECT_THAT(names_of(catalog::NetworkId{}), IsSupersetOf(network_names()));
}

TEST(Networks, ExistForEveryPictureTaskOfTheTable) {
  for (const std::string& name : names_of(catalog::TaskId{})) {
    const catalog::TaskEntry& task = catalog::row(catalog::task_named(name));
    if (task.sample != catalog::SampleKind::kPicture || task.network_from_file()) continue;
    for (const catalog::NetworkEntry& network : task.networks) {
      EXPECT_THAT(network_names(), Contains(std::string(network.name))) << name;
    }
  }
}

TEST(Networks, AnUnknownNameIsRejectedWithTheNearestName) {
  try {
    make_network("resnet81", {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("'resnet81' is not one of headpose_cnn, simple_cnn, mobilenet_v2, resnet18, "
                  "resnet50; did you mean 'resnet18'?"));
  }
}

TEST(Networks, TheHeadIsTheLastLayer) {
  for (const std::string& name : network_names()) {
    const auto network = make_network(name, {.outputs = 7});
    const auto last = network->named_parameters().back();
    EXPECT_TRUE(last.key().starts_with(network->head_prefix())) << name;
    EXPECT_EQ(last.value().sizes(), at::IntArrayRef({7}));
  }
}

TEST(InitialValues, AreAFunctionOfSeedAndName) {
  at::manual_seed(1);
  const auto a = make_network("headpose_cnn", {.seed = 3});
  at::manual_seed(2);  // the global generator is not used
  const auto b = make_network("headpose_cnn", {.seed = 3});
  const auto other_seed = make_network("headpose_cnn", {.seed = 4});
  const auto other_head = make_network("headpose_cnn", {.outputs = 9, .seed = 3});
  EXPECT_TRUE(equal_parameters(*a, *b));
  EXPECT_FALSE(equal_parameters(*a, *other_seed));
  for (const auto& item : a->named_parameters()) {
    if (item.key().starts_with(a->head_prefix())) continue;
    EXPECT_TRUE(at::equal(item.value(), other_head->named_parameters()[item.key()])) << item.key();
  }
}

TEST(InitialValues, HaveTorchvisionsDistributions) {
  const auto network = make_network("resnet18", {});
  const auto parameters = network->named_parameters();
  for (const auto& item : parameters) {
    const at::Tensor& w = item.value();
    if (w.dim() == 4) {
      const double fan_out = static_cast<double>(w.size(0) * w.size(2) * w.size(3));
      EXPECT_NEAR(w.std().item<double>() / std::sqrt(2 / fan_out), 1, 0.05) << item.key();
      EXPECT_NEAR(w.mean().item<double>() / std::sqrt(2 / fan_out), 0, 0.05) << item.key();
    } else if (item.key().starts_with("fc.")) {
      EXPECT_LE(w.abs().max().item<double>(), 1 / std::sqrt(512.0)) << item.key();
      EXPECT_GT(w.abs().max().item<double>(), 0) << item.key();
    } else {
      EXPECT_TRUE(at::equal(w, at::full_like(w, item.key().ends_with("weight") ? 1 : 0)))
          << item.key();
    }
  }
  EXPECT_FALSE(at::equal(parameters["layer1.0.conv1.weight"], parameters["layer1.0.conv2.weight"]));
}

TEST(InitialValues, OfMobilenetsClassifierAreTorchvisions) {
  const auto parameters = make_network("mobilenet_v2", {.outputs = 100})->named_parameters();
  EXPECT_NEAR(parameters["classifier.1.weight"].std().item<double>(), 0.01, 2e-4);
  EXPECT_TRUE(at::equal(parameters["classifier.1.bias"], at::zeros({100})));
  const at::Tensor& depthwise = parameters["features.1.conv.0.0.weight"];  // [32, 1, 3, 3]
  EXPECT_NEAR(depthwise.std().item<double>() / std::sqrt(2 / (32 * 9.0)), 1, 0.1);
}

TEST(SimpleCnn, TakesOneSizeOfImagesOnly) {
  const auto network = make_network("simple_cnn", {.outputs = 4, .dropout = 0, .image_size = 224});
  EXPECT_EQ(network->named_parameters()["fc.0.weight"].sizes(), at::IntArrayRef({256, 100352}));
  EXPECT_TRUE(at::equal(network->named_parameters()["features.1.0.bias"], at::zeros({64})));
  EXPECT_THROW(make_network("simple_cnn", {.image_size = 64})->forward(images(2, 32)), Error);
}

TEST(ChannelsLast, ChangesTheMemoryFormatOnly) {
  const at::NoGradGuard no_grad;
  const auto plain = make_network("resnet18", {}), last = make_network("resnet18", {});
  const at::Tensor first = last->parameters().front();
  set_channels_last(*last);
  // In place: holders of the parameter see the change
  EXPECT_TRUE(first.is_contiguous(at::MemoryFormat::ChannelsLast));
  for (const auto& item : last->named_parameters()) {
    EXPECT_TRUE(item.value().dim() != 4 ||
                item.value().is_contiguous(at::MemoryFormat::ChannelsLast))
        << item.key();
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
  }
  EXPECT_TRUE(equal_parameters(*plain, *last));
  plain->eval();
  last->eval();
  const at::Tensor input = images(2, 64);
  const at::Tensor expected = plain->forward(input);
  const at::Tensor output = last->forward(input.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_LE((output - expected).abs().max().item<double>(),
            1e-5 * expected.abs().max().item<double>());
}

TEST(FrozenBatchNorm, KeepsTheStatisticsAndMakesSamplesIndependent) {
  const auto network = make_network("headpose_cnn", {.dropout = 0});
  network->train();
  network->forward(images(4, 32, 7));  // so that the statistics are not the initial ones
  freeze_batch_norm(*network);
  EXPECT_TRUE(network->is_training());
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : network->buffers()) before.push_back(buffer.clone());

  const at::Tensor input = images(4, 32);
  const at::Tensor together = network->forward(input),
                   alone = network->forward(input.slice(0, 1, 2));
  EXPECT_LE((together[1] - alone[0]).abs().max().item<double>(), 1e-5);
  const auto after = network->buffers();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i]));

  network->train();  // stays frozen
  EXPECT_TRUE(at::equal(network->forward(input), together));
  const auto learning = make_network("headpose_cnn", {.dropout = 0});
  const at::Tensor at_first = learning->buffers()[0].clone();
  learning->forward(input);
  EXPECT_FALSE(at::equal(at_first, learning->buffers()[0]));  // shows that the test can fail
}

class WithDropout : public ::testing::TestWithParam<const char*> {};

TEST_P(WithDropout, DrawsItFromTheScope) {
  const auto network = make_network(GetParam(), {.dropout = 0.5, .image_size = 32});
  const at::Tensor input = images(3, 32);
  network->train();
  EXPECT_THROW(network->forward(input), Error);
  freeze_batch_norm(*network);
  const at::Tensor ids = at::arange(3);
  const auto forward = [&](int64_t step) {
    const layers::RandomScope scope(layers::random_context(1, step, ids));
    return network->forward(input);
  };
  EXPECT_TRUE(at::equal(forward(1), forward(1)));
  EXPECT_FALSE(at::equal(forward(1), forward(2)));
  network->eval();
  EXPECT_TRUE(at::equal(network->forward(input), network->forward(input)));
}

INSTANTIATE_TEST_SUITE_P(Networks, WithDropout,
                         ::testing::Values("headpose_cnn", "simple_cnn", "mobilenet_v2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dtrain::models
