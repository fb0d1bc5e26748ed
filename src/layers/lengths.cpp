#include "layers/lengths.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace dtrain::layers {

at::Tensor valid_positions(const at::Tensor& lengths, int64_t positions) {
  return at::arange(positions, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

LengthGroups group_by_length(const int64_t* lengths, int64_t count, int64_t most) {
  DTRAIN_CHECK(most >= 1, "groups of at most ", most, " samples");
  LengthGroups result;
  result.order.resize(static_cast<size_t>(count));
  std::iota(result.order.begin(), result.order.end(), 0);
  std::stable_sort(result.order.begin(), result.order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  for (int64_t begin = 0; begin < count; begin += most) {
    result.groups.push_back({begin, std::min(most, count - begin), lengths[result.order[static_cast<size_t>(begin)]]});
  }
  return result;
}

}  // namespace dtrain::layers
