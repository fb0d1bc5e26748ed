#include "support/thread_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "core/error.h"

namespace dtrain::dist {
namespace {

using ::testing::HasSubstr;

const auto kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong};

TEST(ThreadCommunicator, AllReduceAgreesOnSumAndMaximum) {
  for (const int size : {1, 2, 4}) {
    run_thread_world(size, [size](Communicator& world) {
      for (const at::ScalarType dtype : kDtypes) {
        for (const int64_t count : {0, 1, 7, 1000}) {
          const at::Tensor base = at::arange(count).remainder(11);
          const auto reduced = [&](ReduceOp op) {
            const at::Tensor mine = (base + world.rank()).to(dtype);
            world.all_reduce(mine, op).wait();
            return mine.to(at::kLong);
          };
          EXPECT_TRUE(reduced(ReduceOp::kSum).equal(base * size + size * (size - 1) / 2));
          EXPECT_TRUE(reduced(ReduceOp::kMax).equal(base + size - 1));
        }
      }
    });
  }
}

TEST(ThreadCommunicator, SumsInRankOrder) {
  // 1e16 + 1 - 1e16 is 0 in this order and 1 in another.
  run_thread_world(3, [](Communicator& world) {
    const double values[] = {1e16, 1, -1e16};
    for (int round = 0; round < 50; ++round) {
      const at::Tensor mine = at::full({1}, values[world.rank()], at::kDouble);
      world.all_reduce(mine, ReduceOp::kSum).wait();
      ASSERT_EQ(mine.item<double>(), 0.0);
    }
  });
}

TEST(ThreadCommunicator, HalfPrecisionIsSummedInFloat) {
  run_thread_world(4, [](Communicator& world) {
    // 2048 + 0.75 is 2048 in fp16
    const at::Tensor mine = at::full({1}, world.rank() == 0 ? 2048.0 : 0.75, at::kHalf);
    world.all_reduce(mine, ReduceOp::kSum).wait();
    EXPECT_EQ(mine.item<float>(), 2050.0f);
  });
}

TEST(ThreadCommunicator, GathersAndBroadcasts) {
  run_thread_world(3, [](Communicator& world) {
    const at::Tensor mine = at::arange(2) + 10 * world.rank(), all = at::empty({6}, at::kLong);
    world.all_gather(all, mine).wait();
    EXPECT_TRUE(all.equal(at::tensor(std::vector<int64_t>{0, 1, 10, 11, 20, 21})));

    const at::Tensor sent = at::full({3}, world.rank(), at::kByte);
    world.broadcast(sent, 2).wait();
    EXPECT_TRUE(sent.equal(at::full({3}, 2, at::kByte)));
  });
}

TEST(ThreadCommunicator, BarrierWaitsForAllRanks) {
  std::atomic<int> arrived = 0;
  run_thread_world(4, [&](Communicator& world) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      world.barrier();
      ASSERT_GE(arrived.load(), 4 * round);
      world.barrier();
    }
  });
}

TEST(ThreadCommunicator, AThrowingRankReleasesTheOthersWithItsReason) {
  std::atomic<int> released = 0;
  const auto body = [&](Communicator& world) {
    if (world.rank() == 1) throw DataError("sample 7 is damaged");
    const at::Tensor mine = at::zeros({1});
    Work work = world.all_reduce(mine, ReduceOp::kSum);  // the error belongs to wait()
    try {
      work.wait();
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 failed: sample 7 is damaged"));
      ++released;
      throw;
    }
  };
  EXPECT_THROW(run_thread_world(3, body), DataError);
  EXPECT_EQ(released, 2);
}

TEST(ThreadCommunicator, AbortReleasesWaiters) {
  EXPECT_THROW(run_thread_world(2,
                                [](Communicator& world) {
                                  if (world.rank() == 0) world.abort("asked to");
                                  world.barrier();
                                }),
               CommError);
}

TEST(ThreadCommunicator, NamesRanksThatAskForDifferentThings) {
  try {
    run_thread_world(2, [](Communicator& world) {
      world.all_reduce(at::zeros({2 + world.rank()}), ReduceOp::kSum).wait();
    });
    FAIL();
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("rank 0 asks for all_reduce(sum, root 0, 2 to 2 elements of Float)"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1 for all_reduce(sum, root 0, 3 to 3"));
  }
}

TEST(ThreadCommunicator, ARankThatLeavesEarlyIsAnErrorOfTheOthers) {
  try {
    run_thread_world(3, [](Communicator& world) {
      if (world.rank() != 2) world.barrier();
    });
    FAIL();
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 2 has left"));
  }
}

TEST(ThreadCommunicator, RefusesWhatItCannotReduce) {
  run_thread_world(1, [](Communicator& world) {
    EXPECT_THROW(static_cast<void>(world.all_reduce(at::zeros({2, 2}).t(), ReduceOp::kSum)), Error);
    EXPECT_THROW(static_cast<void>(world.all_reduce(at::zeros({2}, at::kByte), ReduceOp::kSum)),
                 Error);
    EXPECT_THROW(static_cast<void>(world.all_gather(at::zeros({3}), at::zeros({2}))), Error);
    EXPECT_THROW(static_cast<void>(world.broadcast(at::zeros({3}), 1)), Error);
  });
}

}  // namespace
}  // namespace dtrain::dist
