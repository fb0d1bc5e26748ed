#include "os/page_cache.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace dtrain {
namespace {

TEST(PageCacheTest, AFileThatWasReadIsThereAndCanBeDropped) {
  const testing::TempDir folder;
  const std::filesystem::path file = folder / "data";
  std::ofstream(file) << std::string(8 << 20, 'x');
  std::ifstream in(file);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  ASSERT_EQ(all.size(), size_t{8} << 20);
  const std::optional<double> before = cached_share(file);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(*before, 1);
  const std::optional<double> left = drop_from_page_cache(file);
  ASSERT_TRUE(left.has_value());
  struct statfs system {};
  ASSERT_EQ(::statfs(file.c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC) {
    EXPECT_EQ(*left, 1) << "a file on tmpfs is nowhere else";
  } else {
    EXPECT_LT(*left, 0.01);
  }
  EXPECT_EQ(cached_share(file), left) << "asking reads nothing";
}

TEST(PageCacheTest, WhatCannotBeExaminedIsUnknown) {
  const testing::TempDir folder;
  EXPECT_EQ(cached_share(folder / "missing"), std::nullopt);
  EXPECT_EQ(drop_from_page_cache(folder / "missing"), std::nullopt);
  std::ofstream(folder / "empty");
  EXPECT_EQ(cached_share(folder / "empty"), std::nullopt);
  EXPECT_EQ(cached_share(folder / "."), std::nullopt);
}

}  // namespace
}  // namespace dtrain
