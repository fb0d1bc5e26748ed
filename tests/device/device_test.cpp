#include "device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "support/temp_dir.h"

namespace dtrain::device {
namespace {

config::Device of_type(config::DeviceType type) {
  config::Device device;
  device.type = type;
  return device;
}

TEST(Device, IsTheCpuWhereTheConfigurationSaysSo) {
  EXPECT_EQ(choose(of_type(config::DeviceType::kCpu), 3), at::Device(at::kCPU));
}

TEST(Device, IsTheGpuOfTheRanksNumberOrTheCpuWithoutOne) {
  if (gpu_count() == 0) {
    EXPECT_EQ(choose(of_type(config::DeviceType::kAuto), 0), at::Device(at::kCPU));
    try {
      choose(of_type(config::DeviceType::kCuda), 0);
      ADD_FAILURE() << "a GPU that is not there was chosen";
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("--device.type cpu"));
    }
    return;
  }
  EXPECT_EQ(choose(of_type(config::DeviceType::kAuto), 0), at::Device(at::kCUDA, 0));
  EXPECT_EQ(choose(of_type(config::DeviceType::kCuda), gpu_count()), at::Device(at::kCUDA, 0))
      << "ranks share GPUs";
}

// Drivers older than 580 are common, and hours on the CPU are not what their owners want.
TEST(Driver, ThatIsTooOldIsNamedWithWhatIsNeeded) {
  const std::string why =
      unusable_gpu({.device_file = true, .cuda = 12080, .version = "570.133.07"}, 13000);
  EXPECT_THAT(why, ::testing::HasSubstr("its driver 570.133.07 is too old: it supports CUDA 12.8"));
  EXPECT_THAT(why, ::testing::HasSubstr("needs 13.0 (driver 580 or newer)"));
  EXPECT_THAT(unusable_gpu({.device_file = true, .cuda = 12080}, 13000),
              ::testing::HasSubstr("its driver is too old"));
}

TEST(Driver, ThatIsNewEnoughIsNotTheCause) {
  EXPECT_THAT(unusable_gpu({.device_file = true, .cuda = 13000}, 13020),
              ::testing::HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(unusable_gpu({.device_file = false, .cuda = 13000}, 13000), "")
      << "a driver without a GPU";
  EXPECT_EQ(unusable_gpu({.device_file = false, .cuda = 12080}, 13000), "")
      << "an old driver without a GPU";
}

TEST(Driver, WithoutItsLibraryPointsToTheContainer) {
  EXPECT_THAT(unusable_gpu({.device_file = true}, 13000), ::testing::HasSubstr("--gpus all"));
  EXPECT_EQ(unusable_gpu({}, 13000), "") << "no sign of a GPU";
}

// `docker run --gpus device=3` shows a container /dev/nvidia3 alone.
TEST(Driver, HasAFileForEachGpu) {
  const auto finds = [](const std::vector<std::string>& files) {
    const testing::TempDir folder;
    for (const std::string& file : files) std::ofstream(folder / file);
    return has_gpu_file(folder.path());
  };
  EXPECT_TRUE(finds({"null", "nvidiactl", "nvidia3"}));
  EXPECT_TRUE(finds({"nvidia10"}));
  EXPECT_TRUE(finds({"dxg"}));
  EXPECT_FALSE(finds({"null", "nvidia", "nvidiactl", "nvidia-uvm", "nvidia-caps1", "nvidia3x"}));
  EXPECT_FALSE(has_gpu_file("/no/such/folder"));
}

TEST(Device, TheCpuAlwaysWorks) { EXPECT_TRUE(works(at::kCPU)); }

TEST(Device, AGpuWithoutCodeIsRefusedByName) {
  EXPECT_NO_THROW(check_capability({.name = "NVIDIA T4", .capability = 75}));
  try {
    check_capability({.name = "NVIDIA GeForce GTX 1080 Ti", .capability = 61});
    ADD_FAILURE() << "accepted";
  } catch (const DeviceError& error) {
    EXPECT_THAT(
        error.what(),
        ::testing::HasSubstr("the NVIDIA GeForce GTX 1080 Ti has compute capability 6.1, and"));
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr(
                    "7.5 or newer: hide it with CUDA_VISIBLE_DEVICES, or use --device.type cpu"));
  }
}

TEST(Device, TheCpuHasTheMachinesMemoryAndNoIdentity) {
  const Properties cpu = properties(at::kCPU);
  EXPECT_EQ(cpu.name, "CPU");
  EXPECT_EQ(cpu.pci_bus_id, "");
  EXPECT_EQ(cpu.uuid, "");
  EXPECT_EQ(cpu.capability, 0);
  EXPECT_GT(cpu.memory_bytes, 0);
}

TEST(Device, MemoryOfTheProcessGrowsWithATensor) {
  const int64_t before = memory_use(at::kCPU).allocated;
  constexpr int64_t kBytes = int64_t{64} << 20;
  const at::Tensor kept = at::ones({kBytes}, at::kByte);
  const MemoryUse now = memory_use(at::kCPU);
  EXPECT_GE(now.allocated, before + kBytes / 2);
  EXPECT_LE(now.allocated, properties(at::kCPU).memory_bytes);
  EXPECT_GE(now.reserved, now.allocated);
  EXPECT_GE(now.peak, now.reserved);
  EXPECT_EQ(now.retries + now.failures, 0);
}

TEST(Device, AnUnknownGpuIsADeviceError) {
  EXPECT_THROW(properties({at::kCUDA, 100}), DeviceError);
}

TEST(Device, DeterminismSwitchesOffTheSearchForAlgorithms) {
  set_determinism(/*deterministic=*/true, /*cudnn_benchmark=*/true);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  set_determinism(/*deterministic=*/false, /*cudnn_benchmark=*/true);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
}

}  // namespace
}  // namespace dtrain::device
