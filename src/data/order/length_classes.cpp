#include "data/order/length_classes.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/check.h"

namespace dtrain::data {
namespace {

constexpr size_t kMostLengths = 1024;

// Ascending, each length once; at most kMostLengths of them.
std::vector<PaddedLength> distinct(const std::vector<PaddedLength>& lengths) {
  std::map<int64_t, int64_t> samples;
  for (const PaddedLength& one : lengths) {
    if (one.length > 0 && one.samples > 0) samples[one.length] += one.samples;
  }
  const size_t together = (samples.size() + kMostLengths - 1) / kMostLengths;
  std::vector<PaddedLength> result;
  size_t seen = 0;
  for (const auto& [length, count] : samples) {
    if (seen++ % together == 0) result.emplace_back();
    result.back().length = length;
    result.back().samples += count;
  }
  return result;
}

}  // namespace

// The rows of the samples are what they are, so the fewest padded rows in all have the fewest rows
// of padding. rows[j] is the fewest for the first j lengths with the classes so far, of which the
// last one is length j - 1.
std::vector<int64_t> length_classes(const std::vector<PaddedLength>& lengths, int64_t classes) {
  DTRAIN_CHECK(classes >= 1, classes, " classes of lengths");
  const std::vector<PaddedLength> all = distinct(lengths);
  const size_t n = all.size(), most = std::min(static_cast<size_t>(classes), n);
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> samples(n + 1);  // samples[j]: sum over the first j lengths
  for (size_t j = 0; j < n; ++j) samples[j + 1] = samples[j] + all[j].samples;
  std::vector<int64_t> rows(n + 1, kNone);
  rows[0] = 0;
  // By class: where the one before it ends
  std::vector<std::vector<size_t>> before(most, std::vector<size_t>(n + 1));
  for (std::vector<size_t>& from : before) {
    std::vector<int64_t> next(n + 1, kNone);
    for (size_t j = 1; j <= n; ++j) {
      for (size_t i = 0; i < j; ++i) {
        if (rows[i] == kNone) continue;
        const int64_t sum = rows[i] + all[j - 1].length * (samples[j] - samples[i]);
        if (sum < next[j]) next[j] = sum, from[j] = i;
      }
    }
    rows = std::move(next);
  }
  std::vector<int64_t> result;
  for (size_t c = most, end = n; c-- > 0; end = before[c][end])
    result.push_back(all[end - 1].length);
  std::ranges::reverse(result);
  return result;
}

int64_t rounded_up(const std::vector<int64_t>& classes, int64_t length) {
  if (length <= 0) return length;
  const auto found = std::ranges::lower_bound(classes, length);
  return found == classes.end() ? length : *found;
}

}  // namespace dtrain::data
