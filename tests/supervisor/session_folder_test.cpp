#include "supervisor/session_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/clock.h"
#include "os/child_process.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"

namespace {

bool no_locks = false;  // as on a file system without them

}  // namespace

extern "C" int flock(int file, int operation) {
  if (no_locks) return errno = ENOLCK, -1;
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}

namespace dtrain::supervisor {
namespace {

namespace fs = std::filesystem;

class SessionFolderTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", parent_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  // To the time that new files get, from which on it moves only by hand
  void set_clock() { clock_.advance(real_clock().wall() - clock_.wall()); }

  dtrain::testing::TempDir parent_, shared_memory_;
  const dtrain::testing::FakeClock clock_;
};

// Time stamps of files advance only every few milliseconds, and when a file was made cannot be set.
void wait_for_another_time_stamp() {
  const dtrain::testing::TempDir folder;
  const auto stamp_of = [&](const char* name) {
    std::ofstream(folder / name) << "x";
    return fs::last_write_time(folder / name);
  };
  const auto first = stamp_of("first");
  while (stamp_of("later") == first) continue;
}

TEST_F(SessionFolderTest, IsRemovedWithAllThatIsInIt) {
  fs::path path;
  {
    const SessionFolder folder;
    path = folder.path();
    EXPECT_EQ(path.parent_path(), parent_.path());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directories(path / "ompi.host.0/pid.7");
    std::ofstream(path / "ompi.host.0/pid.7/socket") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(SessionFolderTest, IsUsedAsLongAsARankHasItForTemporaryFiles) {
  const SessionFolder folder;
  const auto seconds_of = [&](double limit) {
    const auto began = std::chrono::steady_clock::now();
    folder.wait_until_unused(limit);
    return seconds_since(began);
  };
  const std::vector<std::string> variables = {"PATH=/usr/bin:/bin",
                                              "TMPDIR=" + folder.path().string()};
  const ChildProcess remote_shell({"sleep", "60"}, variables);  // of mpirun, to a host that is lost
  {
    std::vector<std::string> of_rank = variables;
    of_rank.emplace_back("OMPI_COMM_WORLD_RANK=0");
    const ChildProcess rank({"sleep", "60"}, of_rank);
    const auto began = std::chrono::steady_clock::now();
    while (seconds_of(0.2) < 0.2) {  // its environment is not there at once
      ASSERT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
    }
  }
  EXPECT_LT(seconds_of(30), 10);
}

TEST_F(SessionFolderTest, WhatAKilledSupervisorLeftIsRemovedAndNothingElse) {
  set_clock();
  const SessionFolder used(clock_, shared_memory_.path());
  const fs::path left = parent_ / "dtrain-launch.AbCdEf", other = parent_ / "dtrain-launch.notes";
  const fs::path starts = parent_ / "dtrain-starts.AbCdEf";
  for (const fs::path& folder : {left, other, starts}) fs::create_directories(folder / "inside");
  std::ofstream(left / "lock") << "of a process that is gone\n";
  const fs::path segment = shared_memory_ / "vader_segment.host.0.1.0";  // of its ranks
  std::ofstream(segment) << "x";
  wait_for_another_time_stamp();
  fs::create_directories(left / "later");  // by mpirun
  set_clock();
  clock_.advance(std::chrono::seconds(3));
  const SessionFolder folder(clock_, shared_memory_.path());
  EXPECT_FALSE(fs::exists(segment));
  EXPECT_NE(folder.path(), used.path());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(used.path())) << "its supervisor lives";
  EXPECT_TRUE(fs::exists(other / "inside")) << "it has no lock of a supervisor";
  EXPECT_TRUE(fs::exists(starts / "inside")) << "a supervisor may be about to lock it";
}

TEST_F(SessionFolderTest, WithoutLocksThatOfAnotherSupervisorIsKept) {
  no_locks = true;
  const SessionFolder first;
  { const SessionFolder second; }
  no_locks = false;
  EXPECT_TRUE(fs::exists(first.path()));
}

TEST_F(SessionFolderTest, SegmentsOfASupervisorThatWasKilledAMomentAgoGoWithTheNext) {
  const fs::path segment = shared_memory_ / "vader_segment.host.0.1.0";
  fs::create_directories(parent_ / "dtrain-launch.AbCdEf");
  std::ofstream(parent_ / "dtrain-launch.AbCdEf/lock") << "of a process that is gone\n";
  std::ofstream(segment) << "x";
  set_clock();
  {
    const SessionFolder next(clock_, shared_memory_.path());
    EXPECT_TRUE(fs::exists(segment)) << "its process may be about to map it";
  }
  EXPECT_FALSE(fs::exists(segment));
}

TEST_F(SessionFolderTest, SegmentsOfAJobThatWasKilledAMomentAgoGoToo) {
  const fs::path segment = shared_memory_ / "dtrain-3f";
  set_clock();
  {
    const SessionFolder folder(clock_, shared_memory_.path());
    std::ofstream(segment) << "x";
    set_clock();
  }
  EXPECT_FALSE(fs::exists(segment));
}

TEST_F(SessionFolderTest, OnlyUnusedSegmentsThatWereMadeSinceAreRemoved) {
  const auto segment = [&](const std::string& name) {
    std::ofstream(shared_memory_ / name) << std::string(4096, 'x');
    return shared_memory_ / name;
  };
  const fs::path before = segment("vader_segment.h.0.1.0");
  const auto since = real_clock().wall();
  wait_for_another_time_stamp();
  const auto remove_unused = [&] {
    return remove_unused_segments(shared_memory_.path(), since, clock_);
  };
  const fs::path left = segment("vader_segment.h.0.2.0"), ours = segment("dtrain-3f"),
                 used = segment("dtrain-4f");
  const fs::path others = segment("mpich_shm_1");
  const int file = ::open(used.c_str(), O_RDWR);
  void* mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  set_clock();
  EXPECT_FALSE(remove_unused());
  EXPECT_TRUE(fs::exists(left)) << "it is younger than two seconds";
  clock_.advance(std::chrono::seconds(2));
  wait_for_another_time_stamp();
  const fs::path young = segment("dtrain-5f");
  std::ofstream(left, std::ios::app) << "the last words of a rank that was killed a moment ago";
  EXPECT_FALSE(remove_unused());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(ours));
  for (const fs::path& stays : {before, used, others, young})
    EXPECT_TRUE(fs::exists(stays)) << stays;
  fs::remove(young);
  EXPECT_TRUE(remove_unused()) << "what is mapped is not meant";
  ::munmap(mapped, 4096);
  ::close(file);
}

}  // namespace
}  // namespace dtrain::supervisor
