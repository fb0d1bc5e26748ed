#include "os/kernel_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::os {
namespace {

using List = std::vector<int>;

TEST(ParseList, RangesAndSingleNumbers) {
  EXPECT_EQ(parse_list("0-2,8\n"), List({0, 1, 2, 8}));
  EXPECT_EQ(parse_list(" 5 \nnext line"), List({5}));
  EXPECT_EQ(parse_list("\n"), List());
  for (const char* bad : {"1-", "a", "3-1", "1,,2", "-1", "0-99999999", "1 2"})
    EXPECT_EQ(parse_list(bad), std::nullopt) << bad;
}

TEST(LineOf, WithoutWhiteSpaceAtItsEnds) {
  EXPECT_EQ(line_of("\t a b \nc"), "a b");
  EXPECT_EQ(line_of(" \n"), "");
}

TEST(NumberOf, TheNumberAfterAKey) {
  EXPECT_EQ(number_of("a 1\nnr_throttled 12\nnr_throttled_x 3\n", "nr_throttled"), 12);
  EXPECT_EQ(number_of("MemTotal:       24108 kB\n", "MemTotal"), 24108);
  EXPECT_EQ(number_of("syscr: 7", "syscr"), 7);
  for (const char* bad : {"", "ab 1", "a", "a x", "a\t\n"})
    EXPECT_EQ(number_of(bad, "a"), std::nullopt) << bad;
}

TEST(ParseLimit, ALimitThatIsNoneIsNotUnknown) {
  EXPECT_EQ(parse_limit("max\n"), kNoLimit);
  EXPECT_EQ(parse_limit("unlimited"), kNoLimit);
  EXPECT_EQ(parse_limit("-1"), kNoLimit);
  EXPECT_EQ(parse_limit("18446744073709551615"), kNoLimit);
  EXPECT_EQ(parse_limit("4096\n"), 4096);
  EXPECT_EQ(parse_limit(""), std::nullopt);
  EXPECT_EQ(parse_limit("12x"), std::nullopt);
}

TEST(LimitOf, SoftAndHard) {
  const char* text =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max open files            1024                 524288               files     \n"
      "Max address space         unlimited            unlimited            bytes     \n"
      "Max cut ";
  EXPECT_EQ(limit_of(text, "Max open files")->soft, 1024);
  EXPECT_EQ(limit_of(text, "Max open files")->hard, 524288);
  EXPECT_EQ(limit_of(text, "Max address space")->soft, kNoLimit);
  EXPECT_FALSE(limit_of(text, "Max cut"));
  EXPECT_FALSE(limit_of(text, "Max locked memory"));
}

TEST(Mounts, TypesPlacesAndEscapes) {
  const std::vector<Mount> mounts = parse_mounts(
      "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "40 27 0:9 / /data\\040sets rw,relatime shared:5 - nfs4 server:/export rw,vers=4.2\n"
      "41 27 0:9 / /mnt/ro ro - ext4 /dev/vdb rw\n"
      "damaged line\n"
      "42 27 0:9 / /cut - \n"
      "43 27 0:10 / /mnt/ro rw - tmpfs tmpfs rw\n");
  ASSERT_EQ(mounts.size(), 4u);
  EXPECT_EQ(mount_of(mounts, "/usr/x")->type, "ext4");
  EXPECT_EQ(mount_of(mounts, "/data sets/a.h5")->type, "nfs4");
  EXPECT_EQ(mount_of(mounts, "/data setsx")->point, "/");
  EXPECT_TRUE(mounts[2].read_only);
  EXPECT_EQ(mount_of(mounts, "/mnt/ro")->type, "tmpfs") << "the later mount hides the earlier one";
  EXPECT_EQ(mount_of({}, "/"), nullptr);
}

TEST(Mounts, NetworkFileSystemsAreKnown) {
  for (const char* type : {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "fuse.sshfs"})
    EXPECT_TRUE(is_network(type)) << type;
  for (const char* type : {"ext4", "xfs", "tmpfs", "overlay", "zfs", ""})
    EXPECT_FALSE(is_network(type)) << type;
}

TEST(CoresOfQuota, CoresNoLimitOrUnknown) {
  EXPECT_DOUBLE_EQ(cores_of_quota("150000 100000\n").value(), 1.5);
  EXPECT_TRUE(std::isinf(cores_of_quota("max 100000").value()));
  EXPECT_TRUE(std::isinf(cores_of_quota("-1 100000").value()));
  for (const char* bad : {"", "max", "1 0", "a b", "1 2 3"})
    EXPECT_FALSE(cores_of_quota(bad)) << bad;
}

TEST(PcieGeneration, OfTheTextsOfOldAndNewKernels) {
  EXPECT_EQ(pcie_generation("2.5 GT/s PCIe"), 1);
  EXPECT_EQ(pcie_generation("8 GT/s"), 3);
  EXPECT_EQ(pcie_generation("16.0 GT/s PCIe\n"), 4);
  EXPECT_EQ(pcie_generation("64.0 GT/s PCIe"), 6);
  for (const char* bad : {"", "Unknown", "16.0", "3 GT/s"})
    EXPECT_FALSE(pcie_generation(bad)) << bad;
}

TEST(CpuSeconds, BusyIdleWaitAndSteal) {
  const auto cpu = parse_cpu_seconds("cpu  100 20 30 400 50 6 7 80 0 0\ncpu0 1 2 3\n", 100);
  ASSERT_TRUE(cpu);
  EXPECT_DOUBLE_EQ(cpu->busy, 1.63);
  EXPECT_DOUBLE_EQ(cpu->idle, 4);
  EXPECT_DOUBLE_EQ(cpu->io_wait, 0.5);
  EXPECT_DOUBLE_EQ(cpu->steal, 0.8);
  for (const char* bad : {"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu a 2 3 4 5 6 7 8"})
    EXPECT_FALSE(parse_cpu_seconds(bad, 100)) << bad;
}

TEST(StatWords, TheNameMayContainAnything) {
  const auto words = stat_words("12 (a) b (c) R 1 2 3");
  ASSERT_EQ(words.size(), 4u);
  EXPECT_EQ(words[0], "R");
  EXPECT_TRUE(stat_words("12 cut").empty());
}

}  // namespace
}  // namespace dtrain::os
