#include "monitoring/disk_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <semaphore>

#include "monitoring/http_client.h"
#include "support/temp_dir.h"

namespace dtrain::monitoring {
namespace {

TEST(DiskSpace, OfAFolderThatIsThereOrWillBe) {
  const dtrain::testing::TempDir folder;
  const auto there = disk_space(folder.path());
  ASSERT_TRUE(there);
  EXPECT_GT(there->size, 0);
  EXPECT_GE(there->size, there->free);
  const auto space = std::filesystem::space(folder.path());
  EXPECT_EQ(there->size, static_cast<double>(space.capacity));
  const auto later = disk_space(folder / "runs" / "name");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->size, there->size);
  EXPECT_TRUE(disk_space("no such folder, relative"));
  EXPECT_TRUE(disk_space(""));
}

TEST(DiskSpace, AFileInTheWayHasNone) { EXPECT_FALSE(disk_space("/proc/self/status/x")); }

TEST(DiskMetrics, AreReadAgainAndAgain) {
  const auto registry = std::make_shared<prometheus::Registry>();
  const auto value = [&](const char* name) {
    const std::string text = prometheus::TextSerializer().Serialize(registry->Collect());
    return std::atof(testing::value_of(text, name, "rank=\"0\"").c_str());
  };
  std::counting_semaphore<> asked(0);
  double calls = 0;
  const auto space = [&] {
    asked.release();
    return DiskSpace{.free = ++calls, .size = 200};
  };
  {
    const DiskMetrics metrics({registry, {{"rank", "0"}}}, space, /*interval=*/0.001);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(asked.try_acquire_for(std::chrono::minutes(1)));
    EXPECT_EQ(value("dtrain_disk_size_bytes"), 200);
    EXPECT_GE(value("dtrain_disk_free_bytes"), 2) << "of the second reading, or a later one";
  }
  const auto begin = std::chrono::steady_clock::now();
  { const DiskMetrics metrics({registry, {{"rank", "0"}}}, space, /*interval=*/3600); }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5))
      << "its end does not wait for the interval";
}

}  // namespace
}  // namespace dtrain::monitoring
