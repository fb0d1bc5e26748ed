#include "supervisor/output_relay.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "core/clock.h"

namespace dtrain::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// While it lives, stdout of this process is a pipe, whose other end is `reader`.
class PipedStdout {
 public:
  PipedStdout() : real_(::dup(STDOUT_FILENO)) {
    std::signal(SIGPIPE, SIG_IGN);
    std::fflush(stdout);
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader = FileDescriptor(ends[0]);
    writer_ = FileDescriptor(ends[1]);
    ::dup2(writer_.get(), STDOUT_FILENO);
  }
  ~PipedStdout() { restore(); }
  void restore() {
    if (real_.is_open()) ::dup2(real_.get(), STDOUT_FILENO);
    real_.close();
    writer_.close();
  }
  void wait_until_full() const {
    for (pollfd file{writer_.get(), POLLOUT, 0}; ::poll(&file, 1, 0) == 1;)
      std::this_thread::yield();
  }

  FileDescriptor reader;

 private:
  FileDescriptor real_, writer_;
};

void print(const std::string& text) {
  ASSERT_EQ(FileDescriptor(::dup(STDOUT_FILENO)).write_all(std::as_bytes(std::span(text))), 0);
}

// Reads to the end, or until there are `most` bytes.
std::string read_all(const FileDescriptor& reader, size_t most = std::string::npos) {
  std::string all;
  char bytes[64 << 10];
  for (ssize_t count;
       all.size() < most && (count = ::read(reader.get(), bytes, sizeof bytes)) > 0;) {
    all.append(bytes, static_cast<size_t>(count));
  }
  return all;
}

TEST(OutputRelay, PassesEverythingOnInOrder) {
  PipedStdout pipe;
  std::string expected, got;
  for (int line = 0; line < 50000; ++line) expected += "line " + std::to_string(line) + "\n";
  std::thread reader([&] { got = read_all(pipe.reader); });
  {
    const OutputRelay relay;
    print(expected);
    std::fputs("the end\n", stdout);  // still in a buffer of this process
  }
  pipe.restore();
  reader.join();
  EXPECT_TRUE(got == expected + "the end\n") << got.size() << " bytes of " << expected.size();
}

TEST(OutputRelay, WaitsForRoomInAPipeThatDoesNotBlock) {
  PipedStdout pipe;
  // By another process that shares it
  ASSERT_EQ(::fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK), 0);
  const std::string expected(1 << 20, 'x');
  std::string got;
  std::thread reader([&] {
    pipe.wait_until_full();
    got = read_all(pipe.reader);
  });
  {
    const OutputRelay relay;
    print(expected);
  }
  pipe.restore();
  reader.join();
  EXPECT_TRUE(got == expected) << got.size() << " bytes of " << expected.size();
}

TEST(OutputRelay, OutputThatIsNotReadBlocksNothing) {
  PipedStdout pipe;
  std::string got;
  std::thread reader;
  {
    const OutputRelay relay;
    print("the first line\n" + std::string(2 * OutputRelay::kMostWaiting, 'x') + "\n");
    got = read_all(pipe.reader, 1 << 19);  // makes room
    reader = std::thread([&] { got += read_all(pipe.reader); });
    print("the last line\n");
  }
  pipe.restore();
  reader.join();
  EXPECT_THAT(got.substr(0, 20), StartsWith("the first line\n"));
  EXPECT_LT(got.size(), OutputRelay::kMostWaiting + (1 << 20));
  EXPECT_TRUE(got.find("bytes were left out here, because no process read the output]\n") !=
              got.npos);
  EXPECT_THAT(got.substr(got.size() - 400), EndsWith("the last line\n"));
}

TEST(OutputRelay, AReaderThatStaysAwayDelaysTheEndByAFewSeconds) {
  PipedStdout pipe;
  const auto begin = std::chrono::steady_clock::now();
  {
    const OutputRelay relay;
    print(std::string(1 << 20, 'x'));
  }
  EXPECT_LT(seconds_since(begin), 30) << "two seconds, and a loaded machine";
}

// As behind `2>&1 | less`: the order of what is printed stays, and neither stream waits for the
// other one.
TEST(OutputRelay, BothStreamsMayBeTheSamePipe) {
  PipedStdout pipe;
  const FileDescriptor real(::dup(STDERR_FILENO));
  ::dup2(STDOUT_FILENO, STDERR_FILENO);
  std::string expected, got;
  {
    const OutputRelay relay;
    for (int line = 0; line < 20000;
         ++line) {  // more than the pipe has room for: it is not read yet
      const std::string text = std::to_string(line) + "\n";
      ASSERT_EQ(::write(line % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO, text.data(), text.size()),
                std::ssize(text));
      expected += text;
    }
    pipe.wait_until_full();
    got = read_all(pipe.reader, expected.size());
  }
  ::dup2(real.get(), STDERR_FILENO);
  EXPECT_TRUE(got == expected);
}

TEST(OutputRelay, AReaderThatLeavesEndsNothing) {
  PipedStdout pipe;
  pipe.reader.close();
  const OutputRelay relay;
  print(std::string(1 << 20, 'x'));
  print("more\n");
}

}  // namespace
}  // namespace dtrain::supervisor
