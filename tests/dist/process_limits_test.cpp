#include "dist/process_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::dist {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

MpiRoom plenty() {
  return {.file_bytes = RLIM_INFINITY,
          .folder = "/tmp",
          .folder_bytes = kGiB,
          .shared_bytes = kGiB,
          .local_ranks = 8};
}

TEST(MpiRoom, NothingIsMissingUsually) {
  EXPECT_EQ(missing_for_mpi(plenty()), "");
  EXPECT_EQ(no_shared_memory(plenty()), "");
  EXPECT_EQ(missing_for_mpi(mpi_room("/tmp", 2)), "") << "this machine";
}

TEST(MpiRoom, WhatIsMissingIsNamedWithTheAmountsAndTheCure) {
  MpiRoom room = plenty();
  room.file_bytes = kMiB;
  EXPECT_THAT(missing_for_mpi(room), AllOf(HasSubstr("1.0 MiB (ulimit -f)"), HasSubstr("5.0 MiB")));
  room = plenty();
  room.folder = "/small";
  room.folder_bytes = 5 * kMiB;
  EXPECT_THAT(missing_for_mpi(room),
              AllOf(HasSubstr("/small has 5.0 MiB free"), HasSubstr("set TMPDIR")));
}

TEST(MpiRoom, SharedMemoryIsForSeveralRanks) {
  MpiRoom room = plenty();
  room.shared_bytes = 31 * kMiB;
  EXPECT_THAT(no_shared_memory(room), AllOf(HasSubstr("8 ranks need 32.0 MiB"), HasSubstr("TCP")));
  room.local_ranks = 7;
  EXPECT_EQ(no_shared_memory(room), "");
  room = {.file_bytes = kGiB,
          .folder = "/tmp",
          .folder_bytes = kGiB,
          .shared_bytes = 0,
          .local_ranks = 1};
  EXPECT_EQ(no_shared_memory(room), "");
}

TEST(OpenFiles, TheSoftLimitIsRaisedAndTooLowAHardOneIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_open_files();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 4096));
  const auto with_a_low_hard_limit = [] {
    const rlimit lowest{12, 12};
    ::setrlimit(RLIMIT_NOFILE, &lowest);
    testing::expect_error<UsageError>([] { raise_open_files(); },
                                      {"may open 12 files (ulimit -Hn)", "64"});
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(with_a_low_hard_limit(), ::testing::ExitedWithCode(0), "");
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Stack, TooLowALimitIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &before), 0);
  require_stack();
  const rlimit low{512 << 10, before.rlim_max};  // the test itself has to fit
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &low), 0);
  testing::expect_error<UsageError>([] { require_stack(); },
                                    {"a stack of 512.0 KiB (ulimit -s)", "1.0 MiB or more"});
  ::setrlimit(RLIMIT_STACK, &before);
}

}  // namespace
}  // namespace dtrain::dist
