#include "os/cgroup.h"

#include <gtest/gtest.h>

namespace dtrain::os {
namespace {

using Folders = std::vector<std::string>;

std::vector<Mount> version_1(const std::string& root = "/") {
  return {
      {.root = root,
       .point = "/sys/fs/cgroup/cpu,cpuacct",
       .type = "cgroup",
       .options = "rw,cpu,cpuacct"},
      {.root = root, .point = "/sys/fs/cgroup/memory", .type = "cgroup", .options = "rw,memory"},
      {.root = "/",
       .point = "/sys/fs/cgroup/unified",
       .type = "cgroup2",
       .options = "rw,nsdelegate"}};
}
std::vector<Mount> version_2(const std::string& root = "/") {
  return {{.root = root, .point = "/sys/fs/cgroup", .type = "cgroup2", .options = "rw"}};
}

TEST(ControlGroup, Version2AndItsParents) {
  const auto found = folders_of("cpu", "0::/slurm/job_5/step_0\n", version_2());
  EXPECT_EQ(found.version, 2);
  EXPECT_EQ(found.folders,
            Folders({"/sys/fs/cgroup/slurm/job_5/step_0", "/sys/fs/cgroup/slurm/job_5",
                     "/sys/fs/cgroup/slurm", "/sys/fs/cgroup"}));
}

TEST(ControlGroup, Version1HasAGroupForEachController) {
  const char* groups = "5:memory:/docker/abc\n3:cpu,cpuacct:/docker\n0::/\n";
  const auto memory = folders_of("memory", groups, version_1());
  EXPECT_EQ(memory.version, 1);
  EXPECT_EQ(memory.folders.front(), "/sys/fs/cgroup/memory/docker/abc");
  EXPECT_EQ(folders_of("cpu", groups, version_1()).folders,
            Folders({"/sys/fs/cgroup/cpu,cpuacct/docker", "/sys/fs/cgroup/cpu,cpuacct"}));
}

TEST(ControlGroup, AHybridOneFallsBackToVersion2) {
  const auto pids = folders_of("pids", "3:cpu,cpuacct:/a\n0::/b\n", version_1());
  EXPECT_EQ(pids.version, 2);
  EXPECT_EQ(pids.folders.front(), "/sys/fs/cgroup/unified/b");
}

TEST(ControlGroup, AContainerSeesItsPartOfTheTree) {
  // Without a namespace of groups: the path is that of the host, and the mount shows the
  // group itself.
  EXPECT_EQ(folders_of("memory", "5:memory:/docker/abc\n", version_1("/docker/abc")).folders,
            Folders({"/sys/fs/cgroup/memory"}));
  EXPECT_EQ(
      folders_of("memory", "5:memory:/docker/abc/in\n", version_1("/docker/abc")).folders.front(),
      "/sys/fs/cgroup/memory/in");
  // With one: "/", or a way out of it.
  EXPECT_EQ(folders_of("cpu", "0::/\n", version_2()).folders, Folders({"/sys/fs/cgroup"}));
  EXPECT_EQ(folders_of("cpu", "0::/../../other\n", version_2()).folders,
            Folders({"/sys/fs/cgroup"}));
  EXPECT_EQ(folders_of("cpu", "0::/host/only\n", version_2("/kubepods/x")).folders,
            Folders({"/sys/fs/cgroup"}));
}

TEST(ControlGroup, NothingIsKnownWithoutTheFiles) {
  EXPECT_EQ(folders_of("cpu", "", version_2()).version, 0);
  EXPECT_EQ(folders_of("cpu", "0::/a\n", {}).version, 0);
  EXPECT_EQ(folders_of("cpu", "damaged\n1:cpu\n", version_1()).version, 0);
}

}  // namespace
}  // namespace dtrain::os
