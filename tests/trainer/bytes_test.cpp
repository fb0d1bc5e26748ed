#include "dist/bytes.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "dist/thread_communicator.h"

namespace dtrain::dist {
namespace {

TEST(Bytes, TravelInAnyLength) {
  run_thread_world(3, [](Communicator& comm) {
    EXPECT_EQ(broadcast_text(comm, comm.rank() == 0 ? "from zero" : "ignored"), "from zero");
    EXPECT_EQ(broadcast_text(comm, comm.rank() == 2 ? "" : "ignored", 2), "");
    const std::vector<std::byte> mine(static_cast<size_t>(comm.rank()), static_cast<std::byte>(comm.rank()));
    const auto all = all_gather_bytes(comm, mine);
    ASSERT_EQ(all.size(), 3u);
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(all[rank], std::vector<std::byte>(rank, static_cast<std::byte>(rank)));
    }
  });
}

TEST(Agree, OneFailureIsEverybodys) {
  run_thread_world(3, [](Communicator& comm) {
    int code = 0;
    try {
      agree(comm, [&] {
        if (comm.rank() == 1) throw DataError("rank 1 cannot read");
      });
    } catch (const AgreedFailure& failure) {
      code = failure.exit_code;
    }
    EXPECT_EQ(code, 65);
    agree(comm, [] {});  // the communicator is as good as before
    try {
      agree_on_rank0(comm, [&] { throw OutputError("cannot write"); });
      code = 0;
    } catch (const AgreedFailure& failure) {
      code = failure.exit_code;
    }
    EXPECT_EQ(code, 73);
  });
}

TEST(Describe, GivesEachKindItsExitCode) {
  const auto of = [](auto exception) { return describe(std::make_exception_ptr(exception)); };
  EXPECT_EQ(of(ConfigError("c")).exit_code, 78);
  EXPECT_EQ(of(CommError("c")).exit_code, 76);
  EXPECT_EQ(of(std::runtime_error("plain")).exit_code, 70);
  EXPECT_EQ(of(std::runtime_error("plain")).message, "plain");
  EXPECT_EQ(of(c10::OutOfMemoryError({__func__, __FILE__, 1}, "too much")).exit_code, 69);
  EXPECT_EQ(of(AgreedFailure{74}).exit_code, 74);
  EXPECT_TRUE(of(AgreedFailure{74}).message.empty());
}

}  // namespace
}  // namespace dtrain::dist
