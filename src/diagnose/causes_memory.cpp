// Memory that runs out, or that the data set does not fit into.

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>

#include "diagnose/find_causes.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;

// Bytes per step by a straight line through the points from `begin` to `end`.
double slope_of(const std::vector<MemoryPoint>& points, size_t begin, size_t end) {
  const auto n = static_cast<double>(end - begin);
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = begin; i < end; ++i) {
    x += points[i].steps / n;
    y += points[i].bytes / n;
    xx += points[i].steps * points[i].steps / n;
    xy += points[i].steps * points[i].bytes / n;
  }
  return xx > x * x ? (xy - x * y) / (xx - x * x) : 0;
}

// How far the points are from a straight line, in bytes: that of the farthest one.
double distance_from_line(const std::vector<MemoryPoint>& points, double slope) {
  const auto [low, high] =
      std::ranges::minmax(points | std::views::transform([&](const MemoryPoint& point) {
                            return point.bytes - slope * point.steps;
                          }));
  return (high - low) / 2;
}

// Bytes per step of memory that grows evenly, not by a few jumps and not less and less; 0: it does
// not. Buffers that hold the longest batch so far fill like that, while a leak goes on.
double growth_of(const std::vector<MemoryPoint>& points) {
  constexpr size_t kFewest = 6;
  const size_t n = points.size();
  if (n < kFewest) return 0;
  // Of the growth at first; of a leak of the bench it was 0.8, of buffers 0.44
  constexpr double kGoesOn = 0.65;
  const double all = slope_of(points, 0, n);
  std::array<double, 3> parts{};
  for (size_t third = 0; third < 3; ++third) {
    parts[third] = slope_of(points, third * n / 3, (third + 1) * n / 3);
    if (parts[third] < 0.5 * all || parts[third] > 2 * all) return 0;
  }
  if (parts[2] < kGoesOn * parts[0]) return 0;
  constexpr double kNear = 0.15;  // share of all growth; with two equal jumps it is 0.17
  const double growth = all * (points.back().steps - points.front().steps);
  return growth > 0 && distance_from_line(points, all) <= kNear * growth ? all : 0;
}

// Seen so far: what is less may still be a buffer that fills.
bool has_grown_much(const std::vector<MemoryPoint>& points, double growth) {
  constexpr double kLeast = 32 << 20;
  return growth * (points.back().steps - points.front().steps) >= kLeast;
}

// The ranks of a host fill its memory together. Named is the one that grows most.
void add_memory_growth(const RunEvidence& run, Findings& found) {
  constexpr double kManySteps = 10000, kMuch = 1 << 30;
  const double steps = std::max(kManySteps, or_zero(run.settings.steps_left));
  std::vector<double> growth;
  for (const RankEvidence& rank : run.ranks) {
    const double bytes = growth_of(rank.memory);
    growth.push_back(bytes > 0 && has_grown_much(rank.memory, bytes) ? bytes : 0);
  }
  const auto most = static_cast<size_t>(std::ranges::max_element(growth) - growth.begin());
  double of_host = 0;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    if (run.ranks[rank].host == run.ranks[most].host) of_host += growth[rank];
  }
  const double free = host_of(run, run.ranks[most]).values[Quantity::kFreeMemory];
  if (of_host <= 0 || of_host * steps < (std::isfinite(free) ? free : kMuch)) return;
  found.push_back(
      {.cause = Cause::kMemoryGrowth,
       .rank = rank_of(run, most),
       .evidence = str(human_bytes(growth[most]), " more per step, ",
                       human_bytes(run.ranks[most].memory.back().bytes), " now"),
       .otherwise = std::isfinite(free)
                        ? str("the host runs out of memory in ", fixed(free / of_host, 0), " steps")
                        : "the run will end when the host runs out of memory"});
}

// With the same global batch; "": nothing is smaller.
std::string smaller_batch(const RunEvidence& run) {
  const RunSettings& s = run.settings;
  if (s.batch_size < 2) return s.can_checkpoint ? "--model.checkpointing true" : "";
  const int64_t half = s.batch_size / 2, samples = s.batch_size * s.accumulate;
  // Accumulate follows; that of an embedded config would not stay with another batch.
  if (s.global_batch > 0)
    return str("--batch-size ", half, " --train.global_batch ", s.global_batch);
  if (samples % half == 0) return str("--batch-size ", half, " --accumulate ", samples / half);
  return str("--batch-size ", half, " --train.global_batch ",
             static_cast<int64_t>(run.ranks.size()) * samples);
}

void add_full_memory(const RunEvidence& run, Findings& found) {
  constexpr double kFull = 0.95;
  const std::string smaller = smaller_batch(run),
                    otherwise = smaller.empty() ? "try a smaller network" : "";
  for (size_t rank = 0; run.settings.gpu && rank < run.ranks.size(); ++rank) {
    const Values& gpu = run.ranks[rank].values;
    const double peak = gpu[Quantity::kMemoryPeak], memory = gpu[Quantity::kDeviceMemory];
    const bool retries = gpu[Quantity::kAllocatorRetries] > 0;
    if (!retries && !(peak > kFull * memory)) continue;
    found.push_back(
        {.cause = Cause::kMemoryFull,
         .rank = rank_of(run, rank),
         .evidence = str(human_bytes(peak), " of ", human_bytes(memory), " of the GPU",
                         retries ? ", and the allocator has to give memory back to find more" : ""),
         .setting = smaller,
         .otherwise = otherwise});
    return;
  }
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const HostEvidence& host = host_of(run, run.ranks[rank]);
    const double per_second = host.values[Quantity::kSwappedIn] / mean_wall(run.ranks[rank].steps);
    const double free = host.values[Quantity::kFreeMemory];
    double used = 0;
    for (const RankEvidence& r : run.ranks) {
      if (r.host == run.ranks[rank].host && !r.memory.empty()) used += r.memory.back().bytes;
    }
    // Other processes swap, too: those of this job read what comes back.
    const bool swaps = per_second > 1 << 20 && run.ranks[rank].values[Quantity::kMajorFaults] >= 1;
    if (!swaps && !(free < (1 - kFull) * used)) continue;
    found.push_back(
        {.cause = Cause::kMemoryFull,
         .evidence = swaps ? str(human_bytes(per_second), " per second come back from swap")
                           : str("the job uses ", human_bytes(used), " of the host's memory, ",
                                 human_bytes(free), " is left"),
         .setting = smaller,
         .otherwise = otherwise});
    return;
  }
}

// The second epoch should find its samples in memory.
void add_page_cache(const RunEvidence& run, Findings& found) {
  constexpr double kMany = 0.1;  // share of the bytes that the readers read
  const RankEvidence* worst = &run.ranks[worst_rank(run, Phase::kDataWait)];
  const double bytes = worst->values.or_zero(Quantity::kSampleBytes),
               from_disk = worst->values[Quantity::kDiskBytes];
  const double waits = mean_of(worst->steps, Phase::kDataWait), step = mean_wall(worst->steps);
  const bool again = host_of(run, *worst).values[Quantity::kReadAgain] > kMany * bytes &&
                     from_disk > kMany * bytes;
  if (run.settings.epochs <= 1 || !again || waits <= 0 || bytes <= 0) return;
  // Readers that wait for nothing but the processor.
  const double period =
      (worst->service() - worst->values.or_zero(Quantity::kReadSeconds)) / worst->readers();
  const double left = std::max(share_beyond_headroom(run, worst->steps),
                               std::clamp((period - (step - waits)) / waits, 0.0, 1.0));
  found.push_back(
      {.cause = Cause::kPageCache,
       .rank = only_rank_with_slow_readers(run),
       .evidence =
           str(of_step(waits, step), " waiting; ", percent(std::min(1.0, from_disk / bytes)),
               " of the data come from the disk again"),
       .otherwise = "if the data fitted into memory (convert --size makes pictures smaller)",
       .without = WhatIf{.change = times(Phase::kDataWait, left)}});
}

}  // namespace

void add_memory_causes(const RunEvidence& run, Findings& found) {
  for (const auto& add : {add_memory_growth, add_full_memory, add_page_cache}) add(run, found);
}

}  // namespace dtrain::diagnose
