#include "kernels/intra_op.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dtrain::kernels {
namespace {

class IntraOp : public ::testing::Test {
 protected:
  IntraOp() { at::set_num_threads(2); }
  ~IntraOp() override { at::set_num_threads(threads_); }

 private:
  const int threads_ = at::get_num_threads();
};

TEST_F(IntraOp, RunsOnTheThreadsOfLibTorch) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  intra_op_for(0, 2, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2u);
}

TEST_F(IntraOp, VisitsEachItemOnceInPartsOfTheGrain) {
  std::vector<std::atomic<int>> visits(1001);
  std::atomic<int> small = 0;
  intra_op_for(1, 1001, 300, [&](int64_t begin, int64_t end) {
    if (end - begin < 300) ++small;
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  EXPECT_EQ(visits[0], 0);
  for (size_t i = 1; i < visits.size(); ++i) ASSERT_EQ(visits[i], 1) << i;
  EXPECT_LE(small, 1);
  intra_op_for(5, 5, 1, [](int64_t, int64_t) { FAIL() << "an empty range has no part"; });
}

TEST_F(IntraOp, ThrowsWhatAThreadThrows) {
  EXPECT_THROW(intra_op_for(0, 2, 1,
                            [](int64_t begin, int64_t) {
                              if (begin == 1) throw std::runtime_error("from the second thread");
                            }),
               std::runtime_error);
}

}  // namespace
}  // namespace dtrain::kernels
