#include "kernels/streamed_copy.h"

#include <algorithm>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace dtrain::kernels {

void copy_past_caches(const float* from, int64_t count, float* to) {
#ifdef __SSE2__
  constexpr int64_t kLanes = 4;  // four stores of them fill a line of the cache
  const auto address = reinterpret_cast<uintptr_t>(to) / sizeof(float);
  const int64_t before =
      std::min<int64_t>(count, static_cast<int64_t>((kLanes - address % kLanes) % kLanes));
  std::copy_n(from, before, to);
  int64_t i = before;
  for (; i + kLanes <= count; i += kLanes) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  std::copy(from + i, from + count, to + i);
  _mm_sfence();
#else
  std::copy_n(from, count, to);
#endif
}

}  // namespace dtrain::kernels
