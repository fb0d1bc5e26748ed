#include "dist/buckets.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtrain::dist {

namespace {

// A cache line: no two parameters share one, vector loads are aligned
constexpr int64_t kAlignmentBytes = 64;

int64_t aligned(int64_t elements, int64_t item_bytes) {
  const int64_t step = kAlignmentBytes / item_bytes;
  return (elements + step - 1) / step * step;
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const ParamInfo> params, int64_t cap_bytes,
                                 int64_t first_bytes) {
  std::vector<Bucket> buckets;
  std::map<at::ScalarType, size_t> open;  // the bucket that the next parameter of a dtype may join
  for (size_t left = params.size(); left > 0; --left) {
    const size_t index = left - 1;
    const ParamInfo& param = params[index];
    const auto item_bytes = static_cast<int64_t>(c10::elementSize(param.dtype));
    const auto found = open.find(param.dtype);
    if (found != open.end()) {
      Bucket& bucket = buckets[found->second];
      const int64_t offset = aligned(bucket.elements, item_bytes);
      const int64_t limit = found->second == 0 ? first_bytes : cap_bytes;
      if ((offset + param.elements) * item_bytes <= limit) {
        bucket.params.push_back(index);
        bucket.offsets.push_back(offset);
        bucket.elements = offset + param.elements;
        continue;
      }
    }
    open[param.dtype] = buckets.size();
    buckets.push_back({param.dtype, {index}, {0}, param.elements});
  }
  // A bucket can be sent when its last parameter is done. With one dtype the buckets are in this
  // order already.
  std::ranges::stable_sort(
      buckets, [](const Bucket& a, const Bucket& b) { return a.params.back() > b.params.back(); });
  return buckets;
}

int64_t best_bucket_bytes(const CostFit& cost, int64_t gradient_bytes) {
  constexpr int64_t kUnmeasured = 25 << 20;
  constexpr double kSmallest = 18, kLargest = 27;  // powers of two
  const double latency = cost.latency * static_cast<double>(gradient_bytes);
  if (!(latency > 0) && !(cost.seconds_per_byte > 0)) return kUnmeasured;
  // Infinite where only one of them costs
  const double power = 0.5 * std::log2(latency / cost.seconds_per_byte);
  return int64_t{1} << std::lround(std::clamp(power, kSmallest, kLargest));
}

}  // namespace dtrain::dist
