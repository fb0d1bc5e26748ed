#include "dist/agree.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>

#include "core/error.h"
#include "dist/failure.h"
#include "support/thread_world.h"

namespace dtrain::dist {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const AgreedFailure& failure) {
    return failure.exit_code;
  }
  return 0;
}

TEST(Agree, AFailureOfOneRankIsTheFailureOfAll) {
  run_thread_world(3, [](Communicator& comm) {
    const int code = code_of([&] {
      agree(comm, [&] {
        if (comm.rank() == 1) throw DataError("rank 1 cannot read");
        if (comm.rank() == 2) throw OutputError("rank 2 cannot write");
      });
    });
    EXPECT_EQ(code, 65) << "the code of the lowest rank that failed";
    agree(comm, [] {});  // the communicator works as before
    int calls = 0;
    agree_on_rank0(comm, [&] { ++calls; });
    EXPECT_EQ(calls, comm.rank() == 0 ? 1 : 0);
    EXPECT_EQ(code_of([&] { agree_on_rank0(comm, [&] { throw OutputError("cannot write"); }); }),
              73);
  });
}

TEST(Describe, GivesEachExceptionItsMessageAndExitCode) {
  const auto of = [](auto exception) { return describe(std::make_exception_ptr(exception)); };
  EXPECT_EQ(of(ConfigError("c")).exit_code, 78);
  EXPECT_EQ(of(CommError("c")).exit_code, 76);
  EXPECT_EQ(of(std::runtime_error("plain")).exit_code, 70);
  EXPECT_EQ(of(std::runtime_error("plain")).message, "plain");
  EXPECT_EQ(of(c10::OutOfMemoryError({__func__, __FILE__, 1}, "too much")).exit_code, 69);
  EXPECT_THAT(of(std::bad_alloc()).message,
              HasSubstr("out of host memory: use a smaller --batch-size"));
  EXPECT_EQ(of(std::bad_alloc()).exit_code, 69);
  const auto thread = [](std::errc why) { return std::system_error(std::make_error_code(why)); };
  EXPECT_THAT(of(thread(std::errc::resource_unavailable_try_again)).message,
              HasSubstr("no thread can be started: raise `ulimit -u`"));
  EXPECT_EQ(of(thread(std::errc::resource_unavailable_try_again)).exit_code, 64);
  EXPECT_EQ(of(thread(std::errc::io_error)).exit_code, 70);
  EXPECT_EQ(
      of(c10::Error({__func__, __FILE__, 1}, "[enforce fail at a.cc:1] x == y. It failed.\nmore"))
          .message,
      "It failed.\n  more");
  EXPECT_EQ(of(AgreedFailure{74}).exit_code, 74);
  EXPECT_TRUE(of(AgreedFailure{74}).message.empty());
}

TEST(Describe, AFullHostMemoryIsNoInternalError) {
  try {
    at::empty({int64_t{1} << 55}, at::kChar);
    FAIL() << "32 PiB were allocated";
  } catch (...) {
    const Failure failure = describe(std::current_exception());
    EXPECT_EQ(failure.exit_code, 69);
    EXPECT_THAT(
        failure.message,
        HasSubstr("out of host memory for a tensor of 32.0 PiB: use a smaller --batch-size"));
    EXPECT_THAT(failure.message, Not(HasSubstr("enforce fail")));
  }
}

}  // namespace
}  // namespace dtrain::dist
