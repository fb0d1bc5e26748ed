#include "dist/make_communicator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace dtrain::dist {
namespace {

using config::Backend;

const std::vector<RankDevice> kCpus = {{"a", "", "", 0}, {"b", "", "", 1}};
const std::vector<RankDevice> kCpusOfOneHost = {{"a", "", "", 0}, {"a", "", "", 0}};
const std::vector<RankDevice> kCpusOfTwoHosts = {
    {"a", "", "", 0}, {"b", "", "", 1}, {"a", "", "", 0}};
const std::vector<RankDevice> kOwnGpus = {
    {"a", "u0", "01:00", 0}, {"a", "u1", "02:00", 0}, {"b", "u2", "01:00", 2}};
const std::vector<RankDevice> kOneGpu = {
    {"a", "u0", "01:00", 0}, {"a", "u1", "02:00", 0}, {"a", "u0", "01:00", 0}};

template <typename Expected>
std::string refusal(Backend backend, const std::vector<RankDevice>& devices, bool nccl = true) {
  try {
    choose_backend(backend, devices, nccl);
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

void expect_to_set(void (*function)(), const char* name, const char* value) {
  ::unsetenv(name);
  function();
  EXPECT_STREQ(std::getenv(name), value);
  ::setenv(name, "of the user", /*overwrite=*/1);
  function();
  EXPECT_STREQ(std::getenv(name), "of the user");
  ::unsetenv(name);
}

TEST(NcclSettings, AreSetUnlessTheUserHas) {
  expect_to_set(order_nccl_communicators, "NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  expect_to_set(keep_nccl_graphs_plain, "NCCL_GRAPH_REGISTER", "0");
}

TEST(ChooseBackend, AutoTakesTheFastestThatWorks) {
  EXPECT_EQ(choose_backend(Backend::kAuto, kCpus, true).backend, Backend::kMpi);
  EXPECT_EQ(choose_backend(Backend::kAuto, kCpusOfOneHost, true).backend, Backend::kSharedMemory);
  EXPECT_EQ(choose_backend(Backend::kAuto, kCpusOfTwoHosts, true).backend, Backend::kHierarchical);
  EXPECT_EQ(choose_backend(Backend::kAuto, kOwnGpus, true).backend, Backend::kNccl);
  EXPECT_EQ(choose_backend(Backend::kAuto, kOwnGpus, true).warning, "");
}

// It must not depend on an NCCL that works, on a network interface, or on the time to start them.
TEST(ChooseBackend, ALoneRankNeedsNone) {
  for (const bool nccl : {true, false}) {
    for (const RankDevice& device : {kOneGpu[0], kCpus[0]}) {
      const BackendChoice choice = choose_backend(Backend::kAuto, {&device, 1}, nccl);
      EXPECT_EQ(choice.backend, std::nullopt);
      EXPECT_EQ(choice.warning, "");
    }
  }
  EXPECT_EQ(choose_backend(Backend::kNccl, {kOneGpu.data(), 1}, true).backend, Backend::kNccl)
      << "as it is named";
}

// Containers of several machines often have one name, and the first GPU of each has the same
// bus id.
TEST(ChooseBackend, MachinesOfOneNameDoNotShareTheirGpus) {
  const std::vector<RankDevice> devices = {{"node", "u0", "01:00", 0}, {"node", "u1", "01:00", 1}};
  EXPECT_EQ(choose_backend(Backend::kAuto, devices, true).backend, Backend::kNccl);
}

TEST(ChooseBackend, AutoGoesThroughTheHostAndNamesTheRanksIfTheyShareAGpu) {
  const BackendChoice choice = choose_backend(Backend::kAuto, kOneGpu, true);
  EXPECT_EQ(choice.backend, Backend::kStaged);
  EXPECT_NE(choice.warning.find("rank 0 and rank 2 share one GPU (01:00 of a)"), std::string::npos)
      << choice.warning;
}

TEST(ChooseBackend, NcclCountsPartitionsOfOneGpuAsOneGpu) {
  EXPECT_EQ(choose_backend(
                Backend::kAuto,
                std::vector<RankDevice>{{"a", "mig0", "01:00", 0}, {"a", "mig1", "01:00", 0}}, true)
                .backend,
            Backend::kStaged);
}

TEST(ChooseBackend, AutoGoesThroughTheHostWithoutNccl) {
  const BackendChoice choice = choose_backend(Backend::kAuto, kOwnGpus, false);
  EXPECT_EQ(choice.backend, Backend::kStaged);
  EXPECT_NE(choice.warning, "");
}

TEST(ChooseBackend, ABackendThatIsAskedForIsUsedIfItCanBe) {
  EXPECT_EQ(choose_backend(Backend::kMpi, kCpus, true).backend, Backend::kMpi);
  EXPECT_EQ(choose_backend(Backend::kMpi, kCpusOfOneHost, true).backend, Backend::kMpi);
  EXPECT_EQ(choose_backend(Backend::kSharedMemory, kCpusOfOneHost, true).backend,
            Backend::kSharedMemory);
  for (const auto& cpus : {kCpus, kCpusOfOneHost, kCpusOfTwoHosts}) {
    EXPECT_EQ(choose_backend(Backend::kHierarchical, cpus, true).backend, Backend::kHierarchical);
  }
  EXPECT_EQ(choose_backend(Backend::kStaged, kOwnGpus, true).backend, Backend::kStaged);
  EXPECT_EQ(choose_backend(Backend::kStaged, kOwnGpus, true).warning, "");
  EXPECT_EQ(choose_backend(Backend::kNccl, kOwnGpus, true).backend, Backend::kNccl);
}

TEST(ChooseBackend, NcclWithoutAGpuIsADeviceError) {
  EXPECT_NE(refusal<DeviceError>(Backend::kNccl, kCpus).find("dist.backend mpi or auto"),
            std::string::npos);
  EXPECT_NE(refusal<DeviceError>(Backend::kNccl, kOwnGpus, false).find("built without NCCL"),
            std::string::npos);
}

TEST(ChooseBackend, NcclOnASharedGpuIsAConfigErrorThatNamesTheRanks) {
  EXPECT_NE(refusal<ConfigError>(Backend::kNccl, kOneGpu).find("rank 0 and rank 2"),
            std::string::npos);
}

TEST(ChooseBackend, MpiOnGpusIsAConfigErrorWithAdvice) {
  EXPECT_NE(refusal<ConfigError>(Backend::kMpi, kOwnGpus).find("dist.backend staged"),
            std::string::npos);
}

TEST(ChooseBackend, SharedMemoryOnGpusOrSeveralHostsIsAConfigErrorWithAdvice) {
  EXPECT_NE(refusal<ConfigError>(Backend::kSharedMemory, kOwnGpus).find("dist.backend nccl"),
            std::string::npos);
  EXPECT_NE(refusal<ConfigError>(Backend::kSharedMemory, kCpus).find("dist.backend hierarchical"),
            std::string::npos);
}

TEST(ChooseBackend, HierarchicalOnGpusIsAConfigErrorWithAdvice) {
  EXPECT_NE(refusal<ConfigError>(Backend::kHierarchical, kOwnGpus).find("dist.backend nccl"),
            std::string::npos);
}

// Staged tensors travel as those of CPU ranks do.
TEST(ChooseBackend, TensorsOfTheHostTravelByThePlacementOfTheRanksAlone) {
  EXPECT_EQ(choose_host_backend(kOneGpu), Backend::kSharedMemory);
  EXPECT_EQ(choose_host_backend(kOwnGpus), Backend::kHierarchical);
  EXPECT_EQ(choose_host_backend(kCpus), Backend::kMpi);
  EXPECT_EQ(choose_host_backend({kCpus.data(), 1}), Backend::kSharedMemory);
}

TEST(ChooseBackend, MixedDevicesAreAConfigErrorThatNamesBoth) {
  const std::string message =
      refusal<ConfigError>(Backend::kAuto, {{"a", "u0", "01:00", 0}, {"b", "", "", 1}});
  EXPECT_NE(message.find("rank 0 on a has a GPU and rank 1 on b has none"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace dtrain::dist
