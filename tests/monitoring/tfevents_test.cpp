#include "monitoring/tfevents.h"

#include <gtest/gtest.h>

#include <cstring>

#include "monitoring/sample_stats.h"
#include "monitoring/tensorboard_sink.h"

namespace dtrain::monitoring {
namespace {

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(tfevents::crc32c("123456789"), 0xe3069283u);  // the check value of the CRC catalog
  EXPECT_EQ(tfevents::crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(tfevents::crc32c(""), 0u);
}

TEST(TfRecord, FrameLayout) {
  const std::string frame = tfevents::frame("abc");
  ASSERT_EQ(frame.size(), 8u + 4 + 3 + 4);
  uint64_t length = 0;
  std::memcpy(&length, frame.data(), 8);
  EXPECT_EQ(length, 3u);
  EXPECT_EQ(frame.substr(12, 3), "abc");
}

TEST(TensorBoardSink, AnUnwritableFolderIsLoggedOnce) {
  ::testing::internal::CaptureStderr();
  const auto sink = make_tensorboard_sink("/nowhere/at/all");
  sink->record(testing::sample_step());
  sink->record(testing::sample_eval());
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("cannot open /nowhere/at/all/events.out.tfevents."), std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

}  // namespace
}  // namespace dtrain::monitoring
