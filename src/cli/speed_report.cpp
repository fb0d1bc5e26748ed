#include "cli/speed_report.h"

#include <algorithm>
#include <cmath>

#include "text/strings.h"

namespace dtrain::cli {
namespace {

std::string milliseconds(double seconds) { return fixed(seconds * 1e3, 1) + " ms"; }

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<size_t>(std::max(1.0, rank)) - 1];
  };
  return {at(0.5), at(0.9), at(0.99)};
}

std::string speed_report(const SpeedReport& r) {
  std::string text =
      str("checkpoint  ", r.checkpoint, r.chosen.empty() ? "" : str(" (", r.chosen, ")"),
          "\ninputs      ", human_count(r.samples),
          r.bad > 0 ? str(", ", human_count(r.bad), " of them bad") : "",
          "\nwarm-up     first batch ", milliseconds(r.timing.warm_up), "\n");
  if (r.latencies.empty()) return text + "speed       no batch after the first to measure\n";
  const Percentiles p = percentiles(r.latencies);
  return text + str("speed       ",
                    fixed(static_cast<double>(r.timing.rest_samples) / r.timing.rest, 1),
                    " samples/s (", r.ranks, r.ranks == 1 ? " rank" : " ranks",
                    ", after the first batch)\nlatency     p50 ", milliseconds(p.p50), ", p90 ",
                    milliseconds(p.p90), ", p99 ", milliseconds(p.p99), " of ",
                    human_count(static_cast<int64_t>(r.latencies.size())),
                    r.latencies.size() == 1 ? " batch of " : " batches of ", r.batch_size,
                    " (forward and rows)\n");
}

}  // namespace dtrain::cli
