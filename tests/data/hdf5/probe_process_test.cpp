#include "data/hdf5/probe_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/layout_bytes.h"
#include "data/hdf5/row_set.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

using testing::expect_error;
using testing::extras_of;
using testing::TempDir;

int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all)) - 1;  // one of them lists the others
}

// Runs `misbehave` where the HDF5 library would run, for files with "bad" in their name.
ProbeProcess::Probe probe_that(const std::function<void()>& misbehave) {
  return [misbehave](const std::filesystem::path& file) {
    if (file.string().find("bad") != std::string::npos) misbehave();
    return probe(file);
  };
}

class Probing : public ::testing::Test {
 protected:
  Probing() { testing::write_data_set(folder / "d.h5", 6, extras_of(6)); }

  // bad.h5 is refused with `parts` and its name; then d.h5 is opened as if nothing had happened.
  void expect_death(const std::function<void()>& misbehave, std::vector<std::string> parts,
                    ProbeLimits limits = {}) {
    parts.emplace_back("bad.h5");
    ProbeProcess prober(limits, probe_that(misbehave));
    expect_error<DataError>([&] { prober.probe(folder / "bad.h5"); }, parts);
    EXPECT_EQ(prober.probe(folder / "d.h5").schema.samples, 6);
  }

  const TempDir folder;
};

TEST_F(Probing, GivesTheLayoutThatTheLibraryGivesHere) {
  Writer::Extras extras = extras_of(6);
  extras.splits["train"] = {0, 1};
  extras.attributes["class_names"] = "walk\nrun\nstand still";
  extras.attributes["share"] = 0.1;
  extras.attributes["count"] = int64_t{-3};
  testing::write_row_set(folder / "rows \xff\n.h5", false, extras);
  ProbeProcess prober;
  for (const char* name : {"d.h5", "rows \xff\n.h5"}) {
    const Layout here = probe(folder / name), there = prober.probe(folder / name);
    EXPECT_EQ(encode(there), encode(here));
    EXPECT_EQ(there.file, folder / name);
    EXPECT_NO_THROW(open_file(there)->verify());
  }
}

TEST_F(Probing, RefusalsKeepTheirMessages) {
  ProbeProcess prober;
  expect_error<DataError>([&] { prober.probe(folder / "absent.h5"); },
                          {"absent.h5", "No such file", "dtrain convert"});
  expect_error<DataError>([&] { prober.probe(folder.path()); }, {"not a regular file"});
}

TEST_F(Probing, ACrashIsAnErrorThatNamesTheFile) {
  const auto crash = [] {
    std::signal(SIGSEGV, SIG_DFL);  // AddressSanitizer handles it
    ::raise(SIGSEGV);
  };
  expect_death(crash, {"crashed (Segmentation fault): the file is damaged"});
  expect_death([] { ::raise(SIGKILL); },
               {"was killed: the machine is out of memory, or the file is damaged"});
  expect_death([] { ::_exit(3); }, {"ended early (exit code 3)"});
  expect_death([] { ::_exit(0); }, {"ended early"});
}

TEST_F(Probing, ALoopEnds) {
  expect_death(
      [] {
        std::atomic<bool> forever{true};
        while (forever) {
        }
      },
      {"did not end within 1 s of processor time: the file is damaged"},
      {.processor = std::chrono::seconds(1), .wall = std::chrono::seconds(60)});
  expect_death([] { std::this_thread::sleep_for(std::chrono::hours(1)); },
               {"did not end within 3 s: its disk does not answer, or the file is damaged"},
               {.wall = std::chrono::seconds(3)});
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Ends in its own way
constexpr const char* kOutOfMemory = "the process in which the HDF5 library read its structure";
#else
constexpr const char* kOutOfMemory = "needed more than 256.0 MiB: the file is damaged";
#endif

TEST_F(Probing, MemoryIsLimited) {
  expect_death(
      [] {
        std::vector<std::vector<char>> kept;
        while (true) kept.emplace_back(8 << 20, 'x');
      },
      {kOutOfMemory}, {.bytes = 256 << 20});
}

TEST_F(Probing, TheSizeOfAReplyIsLimited) {
  expect_death([] { throw DataError(std::string((64 << 20) + 1, 'x')); },
               {"sent more than 64.0 MiB: the file"});
}

// As on a machine without descriptors or processes left: no fault of the file.
TEST_F(Probing, AWorkerThatCannotBeStartedIsNoFaultOfTheFile) {
  ProbeProcess prober;
  prober.probe(folder / "d.h5");  // from now on the helper has what it needs
  rlimit before{};
  ASSERT_EQ(::prlimit(prober.helper(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit few{.rlim_cur = 4, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(prober.helper(), RLIMIT_NOFILE, &few, nullptr), 0);
  try {
    prober.probe(folder / "d.h5");
    ADD_FAILURE() << "it had no pipe";
  } catch (const Error& e) {
    EXPECT_EQ(e.exit_code(), 70) << e.what();
    EXPECT_EQ(e.what(), str("cannot open ", (folder / "d.h5").string(),
                            ": cannot create a pipe: Too many open files"));
  }
  ASSERT_EQ(::prlimit(prober.helper(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_EQ(prober.probe(folder / "d.h5").schema.samples, 6);
}

TEST_F(Probing, WhatTheLibraryPrintsDoesNotReachTheUser) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  {
    ProbeProcess prober({}, probe_that([] {
                          std::fputs("HDF5-DIAG\n", stderr);
                          std::puts("free(): invalid pointer");
                          std::fflush(stdout);
                        }));
    EXPECT_THROW(prober.probe(folder / "bad.h5"), DataError);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(Probing, LeavesNoDescriptorAndNoProcess) {
  const int64_t before = open_descriptors();
  const int leaked = ::open("/dev/null", O_RDONLY);  // as a shell may leave one open
  {
    ProbeProcess prober(
        {}, probe_that([] { throw DataError(str("open: ", open_descriptors(), ".")); }));
    EXPECT_EQ(open_descriptors(), before + 2);
    // Standard streams, and the pipe for the reply.
    expect_error<DataError>([&] { prober.probe(folder / "bad.h5"); }, {"open: 4."});
    for (int i = 0; i < 20; ++i) prober.probe(folder / "d.h5");
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  ::close(leaked);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(Probing, SignalsForTheProcessGroupDoNotEndIt) {
  ProbeProcess prober;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2})
    ::kill(prober.helper(), signal);
  EXPECT_EQ(prober.probe(folder / "d.h5").schema.samples, 6);
}

TEST_F(Probing, AKilledHelperIsAnError) {
  ProbeProcess prober;
  ::kill(prober.helper(), SIGKILL);
  for (int i = 0; i < 2; ++i) {
    expect_error<Error>([&] { prober.probe(folder / "d.h5"); }, {"d.h5", "has ended"});
  }
}

// Both generations end with a process that is killed, also in the middle of a file.
TEST_F(Probing, NothingSurvivesTheProcess) {
  // Orphans become children of this process, which then sees them end
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t process = ::fork();
  if (process == 0) {
    ProbeProcess prober({}, probe_that([&] {
                          const pid_t worker = ::getpid();
                          const int out =
                              ::open((folder / "worker").c_str(), O_WRONLY | O_CREAT, 0600);
                          if (::write(out, &worker, sizeof worker) < 0) ::_exit(1);
                          ::pause();
                        }));
    const pid_t helper = prober.helper();
    if (::write(ends[1], &helper, sizeof helper) < 0) ::_exit(1);
    prober.probe(folder / "bad.h5");
    ::_exit(0);
  }
  pid_t helper = 0, worker = 0;
  ASSERT_EQ(::read(ends[0], &helper, sizeof helper), static_cast<ssize_t>(sizeof helper));
  while (worker == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int in = ::open((folder / "worker").c_str(), O_RDONLY);
    if (in >= 0 && ::read(in, &worker, sizeof worker) != sizeof worker) worker = 0;
    ::close(in);
  }
  ::kill(process, SIGKILL);
  for (const pid_t ended : {process, helper, worker}) {
    int status = 0;
    EXPECT_EQ(::waitpid(ended, &status, 0), ended)
        << std::strerror(errno);  // waits as long as it lives
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  ::close(ends[0]);
  ::close(ends[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace dtrain::data
