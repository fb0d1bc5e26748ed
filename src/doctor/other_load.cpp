#include "doctor/other_load.h"

#include <algorithm>
#include <numeric>

namespace dtrain::doctor {
namespace {

std::optional<double> rate(const std::optional<double>& before, const std::optional<double>& after,
                           double seconds) {
  if (!before || !after || !(seconds > 0)) return std::nullopt;
  return std::max(0.0, *after - *before) / seconds;
}

}  // namespace

std::optional<double> own_cpu(const Reading& before, const Reading& after) {
  return rate(before.process.cpu_seconds, after.process.cpu_seconds,
              after.process.at - before.process.at);
}

std::optional<double> other_cpu(const Reading& before, const Reading& after,
                                std::span<const double> cpu_of_ranks) {
  const auto busy = rate(before.machine.busy_seconds, after.machine.busy_seconds,
                         after.machine.at - before.machine.at);
  if (!busy) return std::nullopt;
  return std::max(0.0, *busy - std::accumulate(cpu_of_ranks.begin(), cpu_of_ranks.end(), 0.0));
}

std::optional<double> stolen_cpu(const Reading& before, const Reading& after) {
  return rate(before.machine.steal_seconds, after.machine.steal_seconds,
              after.machine.at - before.machine.at);
}

}  // namespace dtrain::doctor
