#include "data/order/epoch_order.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/random.h"
#include "data/order/shard.h"

namespace dtrain::data {

std::vector<int64_t> length_window(const LengthWindows& windows, int64_t index, uint64_t key,
                                   const std::function<int64_t(int64_t)>& length_of) {
  const int64_t begin = windows.begin(index);
  DTRAIN_CHECK(
      windows.window > 0 && windows.global_batch > 0 && 0 <= begin && begin < windows.samples,
      "window ", index);
  const int64_t count = std::min(windows.begin(index + 1), windows.samples) - begin;
  std::vector<std::pair<int64_t, int64_t>> sorted;  // length, index
  sorted.reserve(static_cast<size_t>(count));
  for (int64_t position = begin; position < begin + count; ++position) {
    const int64_t sample = permuted(position, windows.samples, key);
    sorted.emplace_back(length_of(sample), sample);
  }
  std::sort(sorted.begin(), sorted.end());

  const int64_t batch = windows.global_batch, full = count / batch, tail = count % batch;
  const uint64_t window_key = keyed(key, static_cast<uint64_t>(index));
  const auto tail_after =
      static_cast<int64_t>(keyed(window_key, 1) % static_cast<uint64_t>(full + 1));  // full batches
  std::vector<int64_t> result;
  result.reserve(sorted.size());
  const auto append = [&](int64_t first, int64_t samples) {
    for (int64_t i = first; i < first + samples; ++i)
      result.push_back(sorted[static_cast<size_t>(i)].second);
  };
  for (int64_t i = 0; i < full; ++i) {
    const int64_t chosen = permuted(i, full, window_key);
    append(chosen * batch + (chosen >= tail_after ? tail : 0), batch);
  }
  append(tail_after * batch, tail);
  return result;
}

EpochOrder::EpochOrder(int64_t samples, EpochOrderOptions options,
                       std::function<int64_t(int64_t)> length_of)
    : samples_(samples), options_(options), length_of_(std::move(length_of)) {
  DTRAIN_CHECK(samples > 0 && options.length_window >= 0, samples, " samples, window ",
               options.length_window);
}

int64_t EpochOrder::operator()(int64_t epoch, int64_t position) {
  if (!options_.shuffle) return position;
  const uint64_t key = keyed(static_cast<uint64_t>(Purpose::kPermutation), options_.seed,
                             static_cast<uint64_t>(epoch));
  if (options_.length_window == 0) return permuted(position, samples_, key);
  const LengthWindows windows{samples_, options_.global_batch, options_.length_window};
  const int64_t window = position / (options_.length_window * options_.global_batch);
  if (epoch != epoch_ || window != window_) {
    indices_ = length_window(windows, window, key, length_of_);
    epoch_ = epoch, window_ = window;
  }
  return indices_[static_cast<size_t>(position - windows.begin(window))];
}

}  // namespace dtrain::data
