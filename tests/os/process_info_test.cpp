#include "os/process_info.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtrain {
namespace {

TEST(ProcessInfo, IsThatOfThisProcess) {
  const std::optional<ProcessInfo> own = process_info(::getpid());
  ASSERT_TRUE(own);
  EXPECT_EQ(own->parent, ::getppid());
  EXPECT_EQ(own->name, program_of(::getpid()).filename().string().substr(0, 15));
}

TEST(ProcessInfo, ANameMayHoldBracketsAndSpaces) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NAME, "a) R 1 (b");
    static_cast<void>(!::write(ready[1], "x", 1));
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const std::optional<ProcessInfo> info = process_info(child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->name, "a) R 1 (b");
  EXPECT_EQ(info->parent, ::getpid());
  EXPECT_FALSE(process_info(child)) << "it has ended";
  EXPECT_EQ(program_of(child), "");
}

}  // namespace
}  // namespace dtrain
