#include "device/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <utility>
#include <vector>

namespace dtrain::device {
namespace {

constexpr int64_t kKiB = 1024;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

TEST(TensorMemoryTest, CountsWhatIsHeldAndTheMostOfIt) {
  const TensorMemory memory;
  EXPECT_EQ(memory.peak(), 0);
  at::Tensor a = bytes(64 * kKiB);
  at::Tensor b = bytes(32 * kKiB);
  EXPECT_EQ(memory.held(), 96 * kKiB);
  a.reset();
  EXPECT_EQ(memory.held(), 32 * kKiB);
  EXPECT_EQ(memory.peak(), 96 * kKiB);
  const at::Tensor c = bytes(48 * kKiB);
  EXPECT_EQ(memory.held(), 80 * kKiB);
  EXPECT_EQ(memory.peak(), 96 * kKiB);
}

TEST(TensorMemoryTest, WhatIsOlderDoesNotCount) {
  at::Tensor old = bytes(64 * kKiB);
  const TensorMemory memory;
  old.reset();
  EXPECT_EQ(memory.held(), 0);
  const at::Tensor mine = bytes(8 * kKiB);
  EXPECT_EQ(memory.peak(), 8 * kKiB);
}

TEST(TensorMemoryTest, WhatComesLaterDoesNotCount) {
  at::Tensor during;
  {
    const TensorMemory memory;
    during = bytes(8 * kKiB);
    EXPECT_EQ(memory.held(), 8 * kKiB);
  }
  const at::Tensor after = bytes(64 * kKiB);
  during.reset();
  const TensorMemory again;
  EXPECT_EQ(again.peak(), 0);
}

// The graph holds the input of the square until backward has used it.
TEST(TensorMemoryTest, CountsWhatAGraphHoldsForItsBackward) {
  const at::Tensor x = at::ones({16 * kKiB}, at::kFloat).requires_grad_(true);
  const int64_t each = 4 * 16 * kKiB;
  const TensorMemory memory;
  const at::Tensor y = ((x * 2).square() * 3).sum();
  EXPECT_GE(memory.peak(), 2 * each);
  EXPECT_GE(memory.held(), each);
  EXPECT_LT(memory.held(), 2 * each) << "x * 2 is kept, its square is not";
  y.backward();
  EXPECT_LT(memory.held(), 2 * each) << "only the gradient of x remains";
  EXPECT_LT(memory.peak(), 6 * each);
}

TEST(TensorMemoryTest, TellsAListenerEachChange) {
  at::Tensor old = bytes(64 * kKiB);
  std::vector<std::pair<int64_t, int64_t>> changes;
  std::vector<const void*> addresses;
  const TensorMemory memory([&](const void* address, int64_t changed, int64_t held) {
    changes.emplace_back(changed, held);
    addresses.push_back(address);
  });
  at::Tensor a = bytes(16 * kKiB);
  const at::Tensor b = bytes(8 * kKiB);
  a.reset();
  old.reset();
  EXPECT_EQ(changes, (std::vector<std::pair<int64_t, int64_t>>{
                         {16 * kKiB, 16 * kKiB}, {8 * kKiB, 24 * kKiB}, {-16 * kKiB, 8 * kKiB}}));
  EXPECT_EQ(addresses[0], addresses[2]);
  EXPECT_NE(addresses[0], addresses[1]);
}

// A loader thread may free a batch: it does not report that, and the address is used again.
TEST(TensorMemoryTest, AnAddressThatIsUsedAgainCountsOnce) {
  std::vector<int64_t> changes;
  const TensorMemory memory(
      [&](const void*, int64_t changed, int64_t) { changes.push_back(changed); });
  int64_t place = 0;
  const auto report = [&](int64_t size) {
    c10::reportMemoryUsageToProfiler(&place, size, 0, 0, c10::Device(c10::kCPU));
  };
  report(16 * kKiB);
  report(8 * kKiB);
  EXPECT_EQ(memory.held(), 8 * kKiB);
  EXPECT_EQ(memory.peak(), 16 * kKiB);
  report(-8 * kKiB);
  EXPECT_EQ(memory.held(), 0);
  EXPECT_EQ(changes, (std::vector<int64_t>{16 * kKiB, -16 * kKiB, 8 * kKiB, -8 * kKiB}));
}

}  // namespace
}  // namespace dtrain::device
