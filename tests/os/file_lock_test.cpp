#include "os/file_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::filesystem::path& file) {
  try {
    const FileLock lock(file, "it is in use", "wait");
  } catch (const OutputError& e) {
    return e.what();
  }
  return "";
}

TEST(FileLock, IsHeldByOneAndNamesIt) {
  const testing::TempDir folder;
  {
    FileLock held(folder / "lock", "it is in use", "wait");
    EXPECT_THAT(refusal(folder / "lock"),
                HasSubstr(str("it is in use (process ", ::getpid(), " on ")));
    EXPECT_THAT(refusal(folder / "lock"), HasSubstr("): wait"));
    const FileLock moved = std::move(held);
    EXPECT_NE(refusal(folder / "lock"), "");
  }
  EXPECT_EQ(refusal(folder / "lock"), "");
}

TEST(FileLock, EndsWithItsProcess) {
  const testing::TempDir folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock held(folder / "lock", "it is in use", "wait");
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal(folder / "lock"), HasSubstr(str("process ", child, " on ")));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(refusal(folder / "lock"), "");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FileLock, KnowsWhetherItsFileIsStillThere) {
  const testing::TempDir folder;
  namespace fs = std::filesystem;
  fs::create_directory(folder / "run");
  const FileLock held(folder / "run/lock", "it is in use", "wait");
  EXPECT_TRUE(held.is_at(folder / "run/lock"));
  fs::rename(folder / "run", folder / "moved");
  EXPECT_FALSE(held.is_at(folder / "run/lock"));
  EXPECT_TRUE(held.is_at(folder / "moved/lock"));
  fs::create_directory(folder / "run");
  const FileLock second(folder / "run/lock", "it is in use", "wait");
  EXPECT_FALSE(held.is_at(folder / "run/lock")) << "another file of that name";
  fs::remove_all(folder / "moved");
  EXPECT_FALSE(held.is_at(folder / "moved/lock"));
}

TEST(FileLock, CanBeSeenToBeHeld) {
  const testing::TempDir folder;
  EXPECT_FALSE(is_locked(folder / "lock")) << "there is none";
  EXPECT_FALSE(is_free(folder / "lock"));
  EXPECT_FALSE(std::filesystem::exists(folder / "lock")) << "looking makes no file";
  {
    const FileLock held(folder / "lock", "it is in use", "wait");
    EXPECT_TRUE(is_locked(folder / "lock"));
    EXPECT_TRUE(is_locked(folder / "lock"));
    EXPECT_FALSE(is_free(folder / "lock"));
  }
  EXPECT_FALSE(is_locked(folder / "lock"));
  EXPECT_TRUE(is_free(folder / "lock"));
  EXPECT_EQ(refusal(folder / "lock"), "") << "looking leaves no lock";
}

TEST(FileLock, WaitsForThoseWhoOnlyLook) {
  const testing::TempDir folder;
  { const FileLock made(folder / "lock", "it is in use", "wait"); }
  std::atomic<bool> stop = false;
  std::thread looking([&] {
    while (!stop) is_locked(folder / "lock");
  });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(refusal(folder / "lock"), "");
  stop = true;
  looking.join();
}

TEST(FileLock, WritesToNoOtherFile) {
  const testing::TempDir folder;
  namespace fs = std::filesystem;
  std::ofstream(folder / "data") << "data";
  fs::create_symlink(folder / "data", folder / "soft");
  fs::create_symlink(folder / "gone", folder / "dangling");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder / "soft"),
              HasSubstr("soft is a symbolic link, but dtrain writes only to a file of its"));
  EXPECT_THAT(refusal(folder / "dangling"), HasSubstr("dangling is a symbolic link"));
  EXPECT_THAT(refusal(folder / "pipe"), HasSubstr("pipe is not a regular file"));
  fs::create_hard_link(folder / "data", folder / "hard");
  EXPECT_THAT(refusal(folder / "hard"), HasSubstr("hard has 2 names (hard links)"));
  EXPECT_EQ(fs::file_size(folder / "data"), 4U);
  EXPECT_FALSE(fs::exists(folder / "gone"));
}

TEST(FileLock, ReportsAFileThatCannotBeCreated) {
  const testing::TempDir folder;
  EXPECT_THAT(refusal(folder / "none/lock"),
              HasSubstr("No such file or directory: create its folder first"));
}

}  // namespace
}  // namespace dtrain
