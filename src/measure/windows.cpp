#include "measure/windows.h"

#include <cmath>

namespace dtrain::measure {
namespace {

// Null where all windows are kept.
const EarlierWindows* earlier_of(const Windows& windows, size_t rank) {
  if (windows.empty() || windows.front().earlier.empty()) return nullptr;
  return &windows.front().earlier[rank];
}

}  // namespace

void MemoryCurve::add(const RankSample& window) {
  constexpr size_t kMost = 64;
  steps += window.steps;
  const double resident = window.values[Quantity::kResident];
  if (!std::isfinite(resident) || (!points.empty() && steps < points.back().steps + spacing))
    return;
  points.push_back({steps, resident});
  if (points.size() < kMost) return;
  for (size_t i = 0; 2 * i < points.size(); ++i) points[i] = points[2 * i];
  points.resize(kMost / 2);
  spacing = steps / static_cast<double>(points.size());
}

void EarlierWindows::add(const RankSample& window) {
  total.add(window);
  memory.add(window);
}

Values per_step(const Windows& windows, size_t rank) {
  const EarlierWindows* earlier = earlier_of(windows, rank);
  Total total = earlier ? Total::after(earlier->total) : Total();
  for (const MeasuredWindow& window : windows) total.add(window.ranks[rank]);
  return total.per_step();
}

Total total_of_run(const Windows& windows, size_t rank) {
  const EarlierWindows* earlier = earlier_of(windows, rank);
  Total total = earlier ? earlier->total : Total();
  for (const MeasuredWindow& window : windows) total.add(window.ranks[rank]);
  return total;
}

std::vector<MemoryPoint> memory_of(const Windows& windows, size_t rank) {
  const EarlierWindows* earlier = earlier_of(windows, rank);
  MemoryCurve run = earlier ? earlier->memory : MemoryCurve();
  for (const MeasuredWindow& window : windows) run.add(window.ranks[rank]);
  const double now =
      windows.empty() ? kUnknown : windows.back().ranks[rank].values[Quantity::kResident];
  if (std::isfinite(now) && run.points.back().steps < run.steps)
    run.points.push_back({run.steps, now});
  return run.points;
}

}  // namespace dtrain::measure
