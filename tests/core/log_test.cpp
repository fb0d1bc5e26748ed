#include "core/log.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "os/file_system.h"
#include "support/temp_dir.h"

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

TEST(LogTest, AnErrorReturnsTheLineAsPrinted) {
  log::set_rank(3, 4, "node7");
  std::string line;
  const std::string shown = printed([&] { line = log::error("no such file"); });
  log::set_rank(0, 1);
  EXPECT_EQ(line, "[rank 3 on node7] error: no such file");
  EXPECT_EQ(shown, line + "\n");
}

TEST(LogTest, ALineForAProgramIsOnTheTerminalAloneAndAsItIs) {
  const testing::TempDir folder;
  log::open_file((folder / "log.txt").string());
  std::string tapped;
  std::string shown;
  {
    const log::LogTap tap([&](std::string_view line) { tapped += line; });
    log::set_rank(3, 4);
    shown = printed([] { log::for_program("dtrain-run {}"); });
    log::set_rank(0, 1);
  }
  log::close_file();
  EXPECT_EQ(shown, "dtrain-run {}\n");
  EXPECT_EQ(tapped, "");
  EXPECT_EQ(read_text(folder / "log.txt"), "");
}

}  // namespace
}  // namespace dtrain
