// device.preset: which keys it sets, and for which card.

#include "job/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "catalog/gpus.h"
#include "core/error.h"
#include "train/precision.h"

namespace dtrain::job {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

config::Loaded loaded(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--data.file", "d.h5"});
  return config::load(arguments, "/nonexistent", {.other_flags = {}, .check_dataset = false});
}

std::map<std::string, std::string> keys(const Preset& preset) {
  return {preset.keys.begin(), preset.keys.end()};
}

Card card(const char* name) {
  const catalog::Gpu& gpu = *catalog::gpu_named(name);
  return {.name = name, .memory_bytes = gpu.memory_bytes(), .capability = gpu.capability};
}

TEST(Gpus, AreFoundByTheDriversName) {
  const auto name = [](const char* driver, double gib) {
    const catalog::Gpu* gpu = catalog::find_gpu(driver, static_cast<int64_t>(gib * kGiB));
    return gpu == nullptr ? "" : std::string(gpu->name);
  };
  EXPECT_EQ(name("NVIDIA GeForce RTX 3090", 23.7), "rtx3090");
  EXPECT_EQ(name("NVIDIA GeForce RTX 3060", 11.8), "rtx3060");
  EXPECT_EQ(name("Tesla T4", 14.6), "t4");
  EXPECT_EQ(name("NVIDIA T4", 14.6), "t4");
  EXPECT_EQ(name("NVIDIA A100-SXM4-40GB", 39.4), "a100-40");
  EXPECT_EQ(name("NVIDIA A100 80GB PCIe", 79.2), "a100-80");
  EXPECT_EQ(name("NVIDIA H100 80GB HBM3", 79.1), "h100");
  EXPECT_EQ(name("NVIDIA H200", 139.8), "h200");
  EXPECT_EQ(name("Tesla V100-SXM2-16GB", 15.8), "v100");
  EXPECT_EQ(name("NVIDIA GeForce RTX 3080 Ti", 12), "") << "another card";
  EXPECT_EQ(name("NVIDIA GeForce RTX 4060 Laptop GPU", 8), "");
  EXPECT_EQ(name("NVIDIA L4", 22), "");
}

TEST(Gpus, SayWhichNoBuildSupports) {
  const std::string why = catalog::unsupported_gpu(*catalog::gpu_named("v100"));
  EXPECT_THAT(why,
              HasSubstr("dtrain has no build for CUDA 12: use a GPU of compute capability 7.5"));
  EXPECT_THAT(why, Not(HasSubstr("README"))) << "what it says about CUDA does not help a V100";
  EXPECT_THAT(catalog::gpu_names(), Not(::testing::Contains("v100")));
  for (const catalog::Gpu& gpu : catalog::gpus()) {
    EXPECT_GT(gpu.memory_gib, 4) << gpu.name;
    EXPECT_EQ(catalog::gpu_named(gpu.name), &gpu);
  }
}

TEST(Gpus, HaveThePrecisionsThatARunOnThemChooses) {
  for (const catalog::Gpu& gpu : catalog::gpus()) {
    EXPECT_EQ(gpu.has_bf16(), train::has_bf16(at::kCUDA, gpu.capability)) << gpu.name;
    EXPECT_EQ(gpu.has_bf16(), gpu.capability >= 80) << gpu.name;
  }
}

TEST(DevicePreset, IsCheckedWhenTheConfigIsLoaded) {
  EXPECT_EQ(loaded({"--preset", "auto"}).config.device.preset, "auto");
  const auto message = [](const char* name) -> std::string {
    try {
      loaded({"--preset", name});
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("rtx3090"), "");
  EXPECT_THAT(message("rtx309"), HasSubstr("did you mean 'rtx3090'"));
  EXPECT_THAT(message("v100"), HasSubstr("CUDA 12"));
}

TEST(PresetFor, SetsBatchAndPrecision) {
  const auto of_3090 = keys(preset_for(card("rtx3090"), loaded({"--task", "headpose"}), 1, 86));
  EXPECT_EQ(of_3090.at("train.amp"), "bf16");
  const auto of_t4 = keys(preset_for(card("t4"), loaded({"--task", "headpose"}), 1, 75));
  EXPECT_EQ(of_t4.at("train.amp"), "fp16") << "it has no bf16";
  const auto batch = [](const char* name, const char* network) {
    const config::Loaded run =
        loaded({"--task", "classify", "--model.name", network, "--model.image_size", "320"});
    return std::stoll(keys(preset_for(card(name), run, 1, 86)).at("train.batch_size"));
  };
  EXPECT_LT(batch("rtx4060", "resnet50"), batch("rtx3060", "resnet50"));
  EXPECT_LE(batch("rtx3060", "resnet50"), batch("rtx3090", "resnet50"));
  EXPECT_LE(batch("rtx3090", "resnet50"), batch("h200", "resnet50"));
  EXPECT_LE(batch("h200", "resnet18"), 256) << "not the edge of memory";
}

TEST(PresetFor, FitsIntoTheMemoryByItsOwnEstimate) {
  for (const std::string& name : catalog::gpu_names()) {
    for (const char* network : {"simple_cnn", "mobilenet_v2", "resnet18", "resnet50"}) {
      for (const char* size : {"64", "224", "512"}) {
        const config::Loaded run =
            loaded({"--task", "classify", "--model.name", network, "--model.image_size", size});
        const Card gpu = card(name.c_str());
        const auto set = keys(preset_for(gpu, run, 1, gpu.capability));
        ASSERT_TRUE(set.contains("train.batch_size")) << name << " " << network << " " << size;
        const BatchMemory need =
            *batch_memory(run.config, /*half=*/true, set.contains("model.checkpointing"));
        EXPECT_LE(need.of(std::stod(set.at("train.batch_size"))),
                  0.8 * static_cast<double>(gpu.memory_bytes));
      }
    }
  }
}

// A context for each, and as many batches.
TEST(PresetFor, LeavesRoomForTheOtherRanksOnTheCard) {
  constexpr double kContext = 700 * (1 << 20);
  for (const int64_t ranks : {1, 2, 4}) {
    Card shared = card("rtx3090");
    shared.ranks = ranks;
    const config::Loaded run =
        loaded({"--task", "classify", "--model.name", "resnet50", "--model.image_size", "448"});
    const Preset preset = preset_for(shared, run, ranks, 86);
    const double batch = std::stod(keys(preset).at("train.batch_size"));
    const bool recomputes = keys(preset).contains("model.checkpointing");
    const double need = kContext + batch_memory(run.config, /*half=*/true, recomputes)->of(batch);
    EXPECT_LE(static_cast<double>(ranks) * need, static_cast<double>(shared.memory_bytes)) << ranks;
    EXPECT_GT(static_cast<double>(ranks) * need, 0.3 * static_cast<double>(shared.memory_bytes))
        << ranks;
    EXPECT_EQ(preset.text.find("shared by") != std::string::npos, ranks > 1) << preset.text;
  }
}

TEST(PresetFor, TakesNoBatchOfAWholeCardForAPartOfIt) {
  Card known = card("rtx4060");
  known.measured = {{.network = "resnet50", .image_size = 224, .half = true, .batch_size = 40}};
  known.ranks = 2;
  const config::Loaded run =
      loaded({"--task", "classify", "--model.name", "resnet50", "--model.image_size", "224"});
  const Preset preset = preset_for(known, run, 2, 89);
  Card unknown = known;
  unknown.measured = {};
  EXPECT_EQ(keys(preset), keys(preset_for(unknown, run, 2, 89)));
  EXPECT_THAT(preset.text, HasSubstr("shared by 2 ranks; estimated"));
}

TEST(CardOfRanks, IsTheOneWithTheLeastMemoryForARank) {
  const device::Properties large{
      .name = "large", .uuid = "aa", .memory_bytes = 24 * kGiB, .capability = 86},
      small{.name = "small", .uuid = "bb", .memory_bytes = 16 * kGiB, .capability = 75},
      cpu{.name = "CPU", .memory_bytes = 8 * kGiB};
  const auto expect = [](const std::vector<device::Properties>& devices, const char* name,
                         int64_t ranks) {
    const Card found = card_of_ranks(devices);
    EXPECT_EQ(found.name, name);
    EXPECT_EQ(found.ranks, ranks);
  };
  expect({large}, "large", 1);
  expect({large, small}, "small", 1);
  expect({large, small, large}, "large", 2);
  expect({large, large, large, large}, "large", 4);
  expect({cpu, cpu}, "CPU", 1);
  EXPECT_EQ(card_of_ranks({large, small, large}).capability, 75) << "all ranks compute alike";
  EXPECT_EQ(card_of_ranks({large, large}).memory_bytes, 24 * kGiB);
}

TEST(PresetFor, TakesWhatWasMeasuredOnTheCard) {
  Card known = card("rtx4060");
  known.measured = {{.network = "resnet50", .image_size = 224, .half = true, .batch_size = 40}};
  const auto preset = [&](const char* network, const char* size) {
    return preset_for(
        known, loaded({"--task", "classify", "--model.name", network, "--model.image_size", size}),
        1, 89);
  };
  const Preset measured = preset("resnet50", "224");
  EXPECT_EQ(keys(measured).at("train.batch_size"), "32") << "a power of two";
  EXPECT_THAT(measured.text, HasSubstr("; measured on this card)"));
  EXPECT_THAT(measured.text, Not(HasSubstr("estimated")));
  for (const Preset& other : {preset("resnet18", "224"), preset("resnet50", "256")}) {
    EXPECT_THAT(other.text, HasSubstr("; estimated, `dtrain tune` measures)"));
  }
}

TEST(PresetFor, RecomputesWhereMemoryIsShort) {
  const Card small{.name = "small", .memory_bytes = 5 * kGiB / 2, .capability = 86};
  const config::Loaded run =
      loaded({"--task", "classify", "--model.name", "resnet50", "--model.image_size", "448"});
  EXPECT_EQ(keys(preset_for(small, run, 1, 86)).at("model.checkpointing"), "true");
  EXPECT_FALSE(keys(preset_for(card("h100"), run, 1, 86)).contains("model.checkpointing"));
  const Card tiny{.name = "tiny", .memory_bytes = kGiB / 2, .capability = 86};
  const Preset none = preset_for(tiny, run, 1, 86);
  EXPECT_FALSE(keys(none).contains("train.batch_size"));
  EXPECT_THAT(none.text, HasSubstr("not even one sample"));
}

TEST(PresetFor, KeepsWhatTheUserSetsAndSaysSo) {
  const config::Loaded run = loaded({"--task", "headpose", "--batch-size", "48", "--amp", "fp32"});
  const Preset preset = preset_for(card("rtx3090"), run, 1, 86);
  EXPECT_TRUE(preset.keys.empty());
  EXPECT_THAT(preset.text, HasSubstr("kept train.amp (--amp), train.batch_size (--batch-size)"));
  EXPECT_THAT(preset.text, HasSubstr("estimated"));
}

TEST(PresetFor, SharesTheGlobalBatch) {
  const config::Loaded run = loaded({"--task", "headpose", "--train.global_batch", "96"});
  EXPECT_EQ(keys(preset_for(card("h100"), run, 1, 90)).at("train.batch_size"), "96");
  EXPECT_EQ(keys(preset_for(card("h100"), run, 4, 90)).at("train.batch_size"), "24");
  const config::Loaded fixed =
      loaded({"--task", "headpose", "--train.global_batch", "96", "--accumulate", "3"});
  EXPECT_FALSE(keys(preset_for(card("h100"), fixed, 1, 90)).contains("train.batch_size"));
}

TEST(PresetFor, LeavesPrecisionToADeviceThatLacksIt) {
  EXPECT_FALSE(keys(preset_for(card("h100"), loaded({}), 1, 0)).contains("train.amp"))
      << "the run is on a CPU";
  EXPECT_FALSE(keys(preset_for(card("h100"), loaded({}), 1, 75)).contains("train.amp"));
}

TEST(PresetFor, DoesNotGuessNetworksOfOthers) {
  const config::Loaded run = loaded({"--task", "module", "--model.file", "net.pt"});
  const Preset preset = preset_for(card("h100"), run, 1, 90);
  EXPECT_FALSE(keys(preset).contains("train.batch_size"));
  EXPECT_THAT(preset.text, HasSubstr("not in the table"));
}

}  // namespace
}  // namespace dtrain::job
