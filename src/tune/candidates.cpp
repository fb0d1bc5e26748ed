#include "tune/candidates.h"

#include <algorithm>

#include "core/error.h"
#include "train/precision.h"

namespace dtrain::tune {

using config::AmpMode;

std::vector<AmpMode> precisions(AmpMode given, at::DeviceType device, int capability) {
  const auto works = [&](AmpMode mode) {
    try {
      train::choose_precision(mode, device, capability);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  std::vector<AmpMode> found;
  for (const AmpMode mode : {AmpMode::kBf16, AmpMode::kFp16, AmpMode::kTf32, AmpMode::kFp32}) {
    const bool beside_bf16 = mode == AmpMode::kFp16 && works(AmpMode::kBf16);
    if (mode == given || (works(mode) && !beside_bf16)) found.push_back(mode);
  }
  return found;
}

std::vector<int64_t> batch_candidates(int64_t share, int64_t most, int64_t given) {
  constexpr size_t kMost = 8;
  std::vector<int64_t> batches;
  const auto add = [&](int64_t batch) {
    if (batch >= 1 && batch <= most && std::ranges::find(batches, batch) == batches.end())
      batches.push_back(batch);
  };
  if (share > 0) {
    for (int64_t parts = (share + most - 1) / most; parts <= share && batches.size() < kMost;
         parts *= 2) {
      add((share + parts - 1) / parts);
    }
    // The run cuts its share into equal parts: this one is what is given, by another number.
    const int64_t given_parts = (share + given - 1) / given;
    if (given <= most) std::erase(batches, (share + given_parts - 1) / given_parts);
  } else {
    add(most);
    int64_t power = 1;
    while (power <= most / 2) power *= 2;
    for (; power >= 1 && batches.size() < kMost; power /= 2) add(power);
  }
  add(given);
  std::sort(batches.rbegin(), batches.rend());
  return batches;
}

std::vector<int64_t> worker_candidates(std::vector<LoadingSpeed> speeds, double needed,
                                       int64_t given) {
  // alone; beside a network it may be slower, which the trials of steps show
  constexpr double kKeepsUp = 0.9;
  constexpr size_t kMost = 3, kFastest = 2;
  std::sort(speeds.begin(), speeds.end(),
            [](const auto& a, const auto& b) { return a.threads < b.threads; });
  std::vector<int64_t> workers;
  for (const LoadingSpeed& speed : speeds) {
    if (speed.samples_per_second >= kKeepsUp * needed && workers.size() < kMost)
      workers.push_back(speed.threads);
  }
  if (workers.empty()) {
    std::stable_sort(speeds.begin(), speeds.end(), [](const auto& a, const auto& b) {
      return a.samples_per_second > b.samples_per_second;
    });
    for (size_t i = 0; i < std::min(kFastest, speeds.size()); ++i)
      workers.push_back(speeds[i].threads);
  }
  if (std::ranges::find(workers, given) == workers.end()) workers.push_back(given);
  std::sort(workers.begin(), workers.end());
  return workers;
}

}  // namespace dtrain::tune
