#include "dist/communicator.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/check.h"

namespace dtrain::dist {
namespace {

constexpr int64_t kBlock = 1024;  // accumulators: few enough to stay in the first-level cache over all ranks

template <ReduceOp op, typename T>
T combine(T a, T b) {
  if constexpr (op == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    return a + b;
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return a;
      if (b != b) return b;
    }
    return (op == ReduceOp::kMax ? a < b : b < a) ? b : a;
  }
}

template <ReduceOp op, typename Element, typename Accumulator>
void reduce(std::span<const void* const> by_rank, void* out, int64_t elements) {
  Accumulator sums[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t count = std::min(kBlock, elements - begin);
    const auto* first = static_cast<const Element*>(by_rank[0]) + begin;
    for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<Accumulator>(first[i]);
    for (const void* input : by_rank.subspan(1)) {
      const auto* values = static_cast<const Element*>(input) + begin;
      for (int64_t i = 0; i < count; ++i) sums[i] = combine<op>(sums[i], static_cast<Accumulator>(values[i]));
    }
    auto* result = static_cast<Element*>(out) + begin;
    for (int64_t i = 0; i < count; ++i) result[i] = static_cast<Element>(sums[i]);
  }
}

template <typename Element, typename Accumulator>
void reduce(ReduceOp op, std::span<const void* const> by_rank, void* out, int64_t elements) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce<ReduceOp::kSum, Element, Accumulator>(by_rank, out, elements);
    case ReduceOp::kMax:
      return reduce<ReduceOp::kMax, Element, Accumulator>(by_rank, out, elements);
    case ReduceOp::kMin:
      return reduce<ReduceOp::kMin, Element, Accumulator>(by_rank, out, elements);
  }
}

}  // namespace

void reduce_in_rank_order(at::ScalarType dtype, ReduceOp op, std::span<const void* const> by_rank, void* out,
                          int64_t elements) {
  switch (dtype) {
    case at::kDouble:
      return reduce<double, double>(op, by_rank, out, elements);
    case at::kFloat:
      return reduce<float, float>(op, by_rank, out, elements);
    case at::kBFloat16:
      return reduce<at::BFloat16, float>(op, by_rank, out, elements);
    case at::kHalf:
      return reduce<at::Half, float>(op, by_rank, out, elements);
    case at::kLong:
      return reduce<int64_t, int64_t>(op, by_rank, out, elements);
    default:
      throw Error(str("internal error: tensors of ", c10::toString(dtype), " cannot be reduced"));
  }
}

}  // namespace dtrain::dist
