#include "layers/packed_steps.h"

#include <gtest/gtest.h>

namespace dtrain::layers {
namespace {

PackedSteps steps_of(const std::vector<int64_t>& lengths) {
  return pack_by_length(lengths.data(), static_cast<int64_t>(lengths.size()));
}

TEST(PackedSteps, OrdersSequencesByDecreasingLength) {
  const PackedSteps steps = steps_of({2, 4, 1, 4});
  EXPECT_EQ(steps.order, (std::vector<int64_t>{1, 3, 0, 2}));
  EXPECT_EQ(steps.counts, (std::vector<int64_t>{4, 3, 2, 2}));
  EXPECT_EQ(steps.rows(), 11);
  EXPECT_TRUE(at::equal(steps.indices().index_select(0, steps.inverse()), at::arange(4)));
  EXPECT_EQ(steps_of({}).rows(), 0);
}

TEST(PackedSteps, OfEqualLengthsAreThatOfAnyBatch) {
  const PackedSteps equal = equal_lengths(3, 2), found = steps_of({2, 2, 2});
  EXPECT_EQ(equal.order, found.order);
  EXPECT_EQ(equal.counts, found.counts);
}

TEST(PackedSteps, PackAndUnpackAreEachOthersGradient) {
  const PackedSteps steps = steps_of({2, 4, 1});
  // Time first, in the packed order: lengths 4, 2, 1.
  const at::Tensor padded = at::arange(1, 25, at::kDouble).view({4, 3, 2}).set_requires_grad(true);
  const at::Tensor packed = pack(padded, steps);
  const at::Tensor expected =
      at::tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 19, 20}, at::kDouble).view({7, 2});
  ASSERT_TRUE(at::equal(packed, expected));
  (packed * expected).sum().backward();
  const at::Tensor back = unpack(expected, steps, 4);
  EXPECT_TRUE(at::equal(padded.grad(), back));
  EXPECT_EQ(back.count_nonzero().item<int64_t>(), 14);

  const at::Tensor rows = expected.clone().set_requires_grad(true);
  const at::Tensor longer = unpack(rows, steps, 6);
  ASSERT_EQ(longer.sizes(), at::IntArrayRef({6, 3, 2}));
  EXPECT_TRUE(at::equal(longer.slice(0, 0, 4), back));
  (longer * longer.detach()).sum().backward();
  EXPECT_TRUE(at::equal(rows.grad(), expected));
}

TEST(PackedSteps, PacksAnyMemoryLayout) {
  const PackedSteps steps = steps_of({3, 1});
  const at::Tensor padded = at::randn({3, 2, 5});
  const at::Tensor other = padded.permute({1, 2, 0}).contiguous().permute({2, 0, 1});
  ASSERT_FALSE(other.is_contiguous());
  EXPECT_TRUE(at::equal(pack(other, steps), pack(padded, steps)));
}

}  // namespace
}  // namespace dtrain::layers
