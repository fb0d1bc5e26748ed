// The environment of a process that a rank starts and that has to run alone.

#include "dist/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::dist {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

std::vector<std::string> of(const std::vector<std::string>& ours, int gpu) {
  return environment_of_lone_process(ours, gpu);
}

TEST(EnvironmentOfLoneProcess, KnowsOfNoLauncher) {
  EXPECT_THAT(
      of({"PATH=/bin", "OMPI_COMM_WORLD_RANK=1", "OMPI_MCA_btl=self", "PMIX_RANK=1", "PMI_RANK=1",
          "SLURM_NODELIST=a[1-2]", "SLURM_PROCID=3", "PRTE_X=1", "HOME=/root", "OMP_NUM_THREADS=2"},
         -1),
      ElementsAre("PATH=/bin", "HOME=/root", "OMP_NUM_THREADS=2"));
}

TEST(EnvironmentOfLoneProcess, ShowsOneGpu) {
  EXPECT_THAT(of({"A=1"}, 2), ElementsAre("A=1", "CUDA_VISIBLE_DEVICES=2"));
  EXPECT_THAT(of({"CUDA_VISIBLE_DEVICES=5,6,7", "A=1"}, 1),
              ElementsAre("A=1", "CUDA_VISIBLE_DEVICES=6"))
      << "the number is one of those that are visible";
  EXPECT_THAT(of({"CUDA_VISIBLE_DEVICES=GPU-aa, GPU-bb"}, 1),
              ElementsAre("CUDA_VISIBLE_DEVICES=GPU-bb"));
  EXPECT_THAT(of({"CUDA_VISIBLE_DEVICES="}, 0), ElementsAre("CUDA_VISIBLE_DEVICES=0"));
  EXPECT_THAT(of({"CUDA_VISIBLE_DEVICES=5,6"}, -1), ElementsAre("CUDA_VISIBLE_DEVICES=5,6"))
      << "the CPU";
}

TEST(Environment, IsThatOfThisProcess) {
  ASSERT_EQ(::setenv("DTRAIN_TEST_VARIABLE", "here", 1), 0);
  EXPECT_THAT(environment(), Contains("DTRAIN_TEST_VARIABLE=here"));
}

}  // namespace
}  // namespace dtrain::dist
