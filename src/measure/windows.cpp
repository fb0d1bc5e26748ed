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

void EarlierWindows::add(const RankSample& window) {
  constexpr size_t kMostPoints = 64;
  total.add(window);
  steps += window.steps;
  const double resident = window.values[Quantity::kResident];
  if (!std::isfinite(resident) || (!memory.empty() && steps < memory.back().steps + spacing))
    return;
  memory.push_back({steps, resident});
  if (memory.size() < kMostPoints) return;
  for (size_t i = 0; 2 * i < memory.size(); ++i) memory[i] = memory[2 * i];
  memory.resize(kMostPoints / 2);
  spacing = steps / static_cast<double>(memory.size());
}

Values per_step(const Windows& windows, size_t rank) {
  const EarlierWindows* earlier = earlier_of(windows, rank);
  Total total = earlier ? Total::after(earlier->total) : Total();
  for (const Window& window : windows) total.add(window.ranks[rank]);
  return total.per_step();
}

Total total_of_run(const Windows& windows, size_t rank) {
  const EarlierWindows* earlier = earlier_of(windows, rank);
  Total total = earlier ? earlier->total : Total();
  for (const Window& window : windows) total.add(window.ranks[rank]);
  return total;
}

std::vector<MemoryPoint> memory_of(const Windows& windows, size_t rank) {
  const EarlierWindows* earlier = earlier_of(windows, rank);
  EarlierWindows run = earlier ? *earlier : EarlierWindows();
  for (const Window& window : windows) run.add(window.ranks[rank]);
  const double now =
      windows.empty() ? kUnknown : windows.back().ranks[rank].values[Quantity::kResident];
  if (std::isfinite(now) && run.memory.back().steps < run.steps)
    run.memory.push_back({run.steps, now});
  return run.memory;
}

}  // namespace dtrain::measure
