#include "os/file_descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "core/error.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) throw Error("no pipe");
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
  }
  FileDescriptor out, in;
};

TEST(FileDescriptor, ClosesItsFileOnce) {
  const testing::TempDir folder;
  int first = -1, second = -1;
  {
    FileDescriptor file;
    EXPECT_FALSE(file.is_open());
    ASSERT_EQ(file.open(folder / "f", O_RDWR | O_CREAT), 0);
    first = file.get();
    EXPECT_NE(::fcntl(first, F_GETFD) & FD_CLOEXEC, 0);
    FileDescriptor moved = std::move(file);
    EXPECT_FALSE(file.is_open());  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(is_open(first));
    FileDescriptor other;
    ASSERT_EQ(other.open(folder / "g", O_RDWR | O_CREAT), 0);
    second = other.get();
    moved = std::move(other);
    EXPECT_FALSE(is_open(first));
    EXPECT_TRUE(is_open(second));
    EXPECT_EQ(moved.close(), 0);
    EXPECT_FALSE(is_open(second));
    EXPECT_EQ(moved.close(), 0);
    EXPECT_EQ(file.open(folder / "none/f", O_RDONLY), ENOENT);
    EXPECT_FALSE(file.is_open());
  }
}

TEST(FileDescriptor, ReadsWhatWasWritten) {
  const testing::TempDir folder;
  FileDescriptor file;
  ASSERT_EQ(file.open(folder / "f", O_RDWR | O_CREAT), 0);
  EXPECT_EQ(file.write_all(bytes_of("0123456789")), 0);
  EXPECT_EQ(file.write_all_at(bytes_of("ab"), 4), 0);
  EXPECT_EQ(file.sync(), 0);
  EXPECT_EQ(read_text(folder / "f"), "0123ab6789");
  std::string text(6, ' ');
  EXPECT_EQ(file.read_all_at(std::as_writable_bytes(std::span(text)), 3), 0);
  EXPECT_EQ(text, "3ab678");
  EXPECT_EQ(file.read_all_at(std::as_writable_bytes(std::span(text)), 5),
            FileDescriptor::kEndOfFile);
  EXPECT_EQ(file.read_all(std::as_writable_bytes(std::span(text))), FileDescriptor::kEndOfFile)
      << "it is at the end";
}

TEST(FileDescriptor, ReturnsTheErrno) {
  FileDescriptor full;
  ASSERT_EQ(full.open("/dev/full", O_WRONLY), 0);
  EXPECT_EQ(full.write_all(bytes_of("x")), ENOSPC);
  std::byte byte{};
  EXPECT_EQ(full.read_all({&byte, 1}), EBADF) << "it was opened for writing";
  const FileDescriptor none;
  EXPECT_EQ(none.sync(), EBADF);
  const Pipe pipe;
  EXPECT_EQ(pipe.in.write_all_at(bytes_of("x"), 0), ESPIPE);
}

// A pipe holds 64 KiB: the writer waits in write() most of the time, where the signals interrupt
// it, and each call moves a part of the bytes only. The reader waits in read() at the beginning of
// each round.
TEST(FileDescriptor, GoesOnAfterSignalsAndPartsOfTheBytes) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART: system calls return EINTR
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Pipe pipe;
  std::vector<std::byte> sent(1 << 20), received(sent.size());
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 / 5);
  std::atomic<int> done{0}, write_code{-2}, read_code{-2};
  std::thread writer([&] {
    write_code = pipe.in.write_all(sent);
    ++done;
  });
  std::thread reader([&] {
    read_code = 0;
    for (size_t at = 0; at < received.size() && read_code == 0; at += received.size() / 16) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      read_code = pipe.out.read_all(std::span(received).subspan(at, received.size() / 16));
    }
    ++done;
  });
  while (done < 2) {
    ::pthread_kill(writer.native_handle(), SIGUSR1);
    ::pthread_kill(reader.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  writer.join();
  reader.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(write_code, 0);
  EXPECT_EQ(read_code, 0);
  EXPECT_EQ(sent, received);
}

TEST(FailToWrite, SaysWhatToDo) {
  const auto message = [](int code) -> std::string {
    try {
      fail_to_write("write", "a/b", code);
    } catch (const OutputError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message(ENOSPC),
              HasSubstr("cannot write a/b: No space left on device: free some space"));
  EXPECT_THAT(message(EDQUOT), HasSubstr("free some space, or write to another disk"));
  EXPECT_THAT(message(EFBIG), HasSubstr("ulimit -f"));
  EXPECT_THAT(message(EACCES), HasSubstr("choose a folder that you may write to"));
  EXPECT_EQ(message(EIO), str("cannot write a/b: ", std::strerror(EIO)));
  EXPECT_EQ(message(ENOENT), str("cannot write a/b: ", std::strerror(ENOENT)));
  testing::expect_error<OutputError>([] { fail_to_write("write", "a", ENOSPC, "buy a disk"); },
                                     {"No space left on device: buy a disk"});
  testing::expect_error<OutputError>([] { fail_to_write("write", "a", EFBIG, "buy a disk"); },
                                     {"File too large: raise the limit (ulimit -f)"});
}

TEST(FailToWrite, SaysWhyNothingCanBeCreated) {
  const testing::TempDir folder;
  const auto fails = [&](const char* operation, const std::string& name,
                         const std::vector<std::string>& parts) {
    testing::expect_error<OutputError>([&] { fail_to_write(operation, folder / name, ENOENT); },
                                       parts);
  };
  fails("create", "none/f", {"none/f: No such file or directory: create its folder first"});
  fails("create", "f", {"nothing can be created there: choose another folder"});
  fails("create folder", "none/d", {"nothing can be created there: choose another folder"});
  const auto without_advice = [&](const char* operation, const std::string& name) {
    try {
      fail_to_write(operation, folder / name, ENOENT);
    } catch (const OutputError& e) {
      EXPECT_EQ(std::string(e.what()), str("cannot ", operation, " ", (folder / name).string(),
                                           ": No such file or directory"));
    }
  };
  for (const char* operation : {"rename to", "open", "open folder", "remove"}) {
    without_advice(operation, "f");
    without_advice(operation, "none/f");
  }
}

}  // namespace
}  // namespace dtrain
