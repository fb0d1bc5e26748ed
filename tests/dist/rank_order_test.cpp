// The arithmetic of reductions on the host: reduce_in_rank_order().

#include "dist/communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"

namespace dtrain::dist {
namespace {

at::Tensor reduce(const std::vector<at::Tensor>& by_rank, ReduceOp op) {
  std::vector<const void*> pointers;
  for (const at::Tensor& tensor : by_rank) pointers.push_back(tensor.data_ptr());
  const at::Tensor out = at::empty_like(by_rank[0]);
  reduce_in_rank_order(out.scalar_type(), op, pointers, out.data_ptr(), out.numel());
  return out;
}

TEST(ReduceInRankOrder, AddsInTheOrderOfTheRanks) {
  // In float32 (1e8 + -1e8) + 1 is 1, and 1e8 + (-1e8 + 1) is 0.
  for (const int64_t n : {1, 1023, 1024, 1025, 5000}) {
    const auto full = [n](double value) { return at::full({n}, value, at::kFloat); };
    EXPECT_TRUE(at::equal(reduce({full(1e8), full(-1e8), full(1)}, ReduceOp::kSum), full(1)));
    EXPECT_TRUE(at::equal(reduce({full(1), full(1e8), full(-1e8)}, ReduceOp::kSum), full(0)));
  }
}

TEST(ReduceInRankOrder, TheOutputMayBeAnyInput) {
  for (size_t place = 0; place < 3; ++place) {
    std::vector<at::Tensor> by_rank;
    std::vector<const void*> pointers;
    for (int rank = 0; rank < 3; ++rank) {
      by_rank.push_back(at::arange(3000, at::kDouble).add(1000 * rank));
      pointers.push_back(by_rank.back().data_ptr());
    }
    reduce_in_rank_order(at::kDouble, ReduceOp::kSum, pointers, by_rank[place].data_ptr(), 3000);
    EXPECT_TRUE(at::equal(by_rank[place], at::arange(3000, at::kDouble).mul(3).add(3000)));
  }
}

TEST(ReduceInRankOrder, HalfPrecisionIsRoundedOnce) {
  const auto full = [](double value, at::ScalarType dtype) { return at::full({3}, value, dtype); };
  for (const auto& [dtype, whole] :
       {std::pair{at::kHalf, 2048.0}, std::pair{at::kBFloat16, 256.0}}) {
    const at::Tensor sum =
        reduce({full(whole, dtype), full(1, dtype), full(1, dtype)}, ReduceOp::kSum);
    EXPECT_TRUE(at::equal(sum, full(whole + 2, dtype))) << c10::toString(dtype);
  }
}

TEST(ReduceInRankOrder, ANanOfAnyRankWins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kSum}) {
      for (int place = 0; place < 3; ++place) {
        std::vector<at::Tensor> by_rank;
        for (int rank = 0; rank < 3; ++rank)
          by_rank.push_back(at::full({5}, rank == place ? nan : rank, dtype));
        EXPECT_TRUE(at::isnan(reduce(by_rank, op)).all().item<bool>())
            << c10::toString(dtype) << ", rank " << place;
      }
    }
  }
}

TEST(ReduceInRankOrder, IntegersWrapAround) {
  const at::Tensor most = at::full({2}, std::numeric_limits<int64_t>::max(), at::kLong);
  EXPECT_TRUE(at::equal(reduce({most, at::ones({2}, at::kLong)}, ReduceOp::kSum),
                        at::full({2}, std::numeric_limits<int64_t>::min(), at::kLong)));
}

TEST(ReduceInRankOrder, OtherTypesAreRefused) {
  EXPECT_THROW(reduce({at::ones({2}, at::kByte), at::ones({2}, at::kByte)}, ReduceOp::kSum), Error);
}

}  // namespace
}  // namespace dtrain::dist
