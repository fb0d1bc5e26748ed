#include "dist/communicator.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/check.h"
#include "os/vector_set.h"

namespace dtrain::dist {
namespace {

// accumulators: few enough to stay in the first-level cache over all ranks
constexpr int64_t kBlock = 1024;

template <ReduceOp op, typename T>
T combine(T a, T b) {
  if constexpr (op == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    return a + b;
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return a;
      if (b != b) return b;
    }
    return a < b ? b : a;
  }
}

// result[i] = a[i] op b[i], calculated as Accumulators. The result may be where a or b is, but not
// overlap them otherwise; the compiler cannot know that, and would not vectorize.
template <ReduceOp op, typename Accumulator, typename Result, typename A, typename B>
[[gnu::always_inline]] inline void combine_loop(const A* a, const B* b, Result* result,
                                                int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    result[i] = static_cast<Result>(
        combine<op>(static_cast<Accumulator>(a[i]), static_cast<Accumulator>(b[i])));
  }
}

template <ReduceOp op, typename Accumulator, typename Result, typename A, typename B>
void combine_for_any(const A* a, const B* b, Result* result, int64_t count) {
  combine_loop<op, Accumulator>(a, b, result, count);
}

#if defined(__x86_64__) && defined(__GNUC__)
// The same operations with the same bits, on twice as many values at once.
template <ReduceOp op, typename Accumulator, typename Result, typename A, typename B>
[[gnu::target("avx2")]] void combine_for_avx2(const A* a, const B* b, Result* result,
                                              int64_t count) {
  combine_loop<op, Accumulator>(a, b, result, count);
}
#endif

template <ReduceOp op, typename Accumulator, typename Result, typename A, typename B>
void combine_all(const A* a, const B* b, Result* result, int64_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (widest_vectors() >= VectorSet::kAvx2)
    return combine_for_avx2<op, Accumulator>(a, b, result, count);
#endif
  combine_for_any<op, Accumulator>(a, b, result, count);
}

template <ReduceOp op, typename Element, typename Accumulator>
void reduce(std::span<const void* const> by_rank, void* out, int64_t elements) {
  const size_t last = by_rank.size() - 1;
  if (last == 0) {
    if (out != by_rank[0])
      std::memcpy(out, by_rank[0], static_cast<size_t>(elements) * sizeof(Element));
    return;
  }
  const auto values = [&](size_t rank) { return static_cast<const Element*>(by_rank[rank]); };
  auto* result = static_cast<Element*>(out);
  if (last == 1) return combine_all<op, Accumulator>(values(0), values(1), result, elements);
  Accumulator sums[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t count = std::min(kBlock, elements - begin);
    combine_all<op, Accumulator>(values(0) + begin, values(1) + begin, sums, count);
    for (size_t rank = 2; rank < last; ++rank) {
      combine_all<op, Accumulator>(static_cast<const Accumulator*>(sums), values(rank) + begin,
                                   sums, count);
    }
    combine_all<op, Accumulator>(static_cast<const Accumulator*>(sums), values(last) + begin,
                                 result + begin, count);
  }
}

template <typename Element, typename Accumulator>
void reduce(ReduceOp op, std::span<const void* const> by_rank, void* out, int64_t elements) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce<ReduceOp::kSum, Element, Accumulator>(by_rank, out, elements);
    case ReduceOp::kMax:
      return reduce<ReduceOp::kMax, Element, Accumulator>(by_rank, out, elements);
  }
}

}  // namespace

void reduce_in_rank_order(at::ScalarType dtype, ReduceOp op, std::span<const void* const> by_rank,
                          void* out, int64_t elements) {
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
