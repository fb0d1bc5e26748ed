#include "dist/make_communicator.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"

namespace dtrain::dist {
namespace {

const std::vector<RankDevice> kCpus = {{"a", "", ""}, {"b", "", ""}};
const std::vector<RankDevice> kOwnGpus = {{"a", "u0", "01:00"}, {"a", "u1", "02:00"}, {"b", "u2", "01:00"}};
const std::vector<RankDevice> kOneGpu = {{"a", "u0", "01:00"}, {"a", "u1", "02:00"}, {"a", "u0", "01:00"}};

template <typename Expected>
std::string refusal(const std::string& backend, const std::vector<RankDevice>& devices, bool nccl = true) {
  try {
    choose_backend(backend, devices, nccl);
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

TEST(ChooseBackend, AutoTakesTheFastestThatWorks) {
  EXPECT_EQ(choose_backend("auto", kCpus, true).name, "mpi");
  EXPECT_EQ(choose_backend("auto", kOwnGpus, true).name, "nccl");
  EXPECT_EQ(choose_backend("auto", kOwnGpus, true).warning, "");
  EXPECT_EQ(choose_backend("auto", {kOneGpu.data(), 1}, true).name, "nccl");
}

TEST(ChooseBackend, AutoGoesThroughTheHostAndNamesTheRanksIfTheyShareAGpu) {
  const BackendChoice choice = choose_backend("auto", kOneGpu, true);
  EXPECT_EQ(choice.name, "staged");
  EXPECT_NE(choice.warning.find("rank 0 and rank 2 share one GPU (01:00 of a)"), std::string::npos) << choice.warning;
}

TEST(ChooseBackend, NcclCountsPartitionsOfOneGpuAsOneGpu) {
  EXPECT_EQ(choose_backend("auto", std::vector<RankDevice>{{"a", "mig0", "01:00"}, {"a", "mig1", "01:00"}}, true).name,
            "staged");
}

TEST(ChooseBackend, AutoGoesThroughTheHostWithoutNccl) {
  const BackendChoice choice = choose_backend("auto", kOwnGpus, false);
  EXPECT_EQ(choice.name, "staged");
  EXPECT_NE(choice.warning, "");
}

TEST(ChooseBackend, ABackendThatIsAskedForIsUsedIfItCanBe) {
  EXPECT_EQ(choose_backend("mpi", kCpus, true).name, "mpi");
  EXPECT_EQ(choose_backend("staged", kOwnGpus, true).name, "staged");
  EXPECT_EQ(choose_backend("staged", kOwnGpus, true).warning, "");
  EXPECT_EQ(choose_backend("nccl", kOwnGpus, true).name, "nccl");
}

TEST(ChooseBackend, NcclWithoutAGpuIsADeviceError) {
  EXPECT_NE(refusal<DeviceError>("nccl", kCpus).find("dist.backend mpi or auto"), std::string::npos);
  EXPECT_NE(refusal<DeviceError>("nccl", kOwnGpus, false).find("built without NCCL"), std::string::npos);
}

TEST(ChooseBackend, NcclOnASharedGpuIsAConfigErrorThatNamesTheRanks) {
  EXPECT_NE(refusal<ConfigError>("nccl", kOneGpu).find("rank 0 and rank 2"), std::string::npos);
}

TEST(ChooseBackend, MpiOnGpusIsAConfigErrorWithAdvice) {
  EXPECT_NE(refusal<ConfigError>("mpi", kOwnGpus).find("dist.backend staged"), std::string::npos);
}

TEST(ChooseBackend, MixedDevicesAreAConfigErrorThatNamesBoth) {
  const std::string message = refusal<ConfigError>("auto", {{"a", "u0", "01:00"}, {"b", "", ""}});
  EXPECT_NE(message.find("rank 0 on a has a GPU and rank 1 on b has none"), std::string::npos) << message;
}

TEST(ChooseBackend, AnUnknownNameIsAConfigError) {
  EXPECT_NE(refusal<ConfigError>("gloo", kCpus).find("auto, nccl, staged or mpi"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::dist
