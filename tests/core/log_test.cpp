#include "core/log.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/quiet_log.h"

namespace dtrain {
namespace {

std::string printed(const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, WhileItIsQuietOnlyWarningsAndErrorsArePrinted) {
  const auto speak = [] {
    log::info("progress");
    log::plain("a table");
    log::warning("take care");
    log::error("too late");
  };
  EXPECT_EQ(printed([&] {
              const log::Quiet outer, inner;
              speak();
            }),
            "warning: take care\nerror: too late\n");
  const std::string after = printed(speak);
  EXPECT_NE(after.find("progress\n"), std::string::npos) << after;
  EXPECT_NE(after.find("\na table\n"), std::string::npos) << after;
}

}  // namespace
}  // namespace dtrain
