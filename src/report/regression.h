#pragma once

// Whether a second run is worse than a first one by more than a limit, as far as the noise of both
// allows. The rule (docs/metrics.md, "Comparing two runs"):
//   throughput  the median of the windows of each run after warm-up. Its standard error comes from
//               the means of up to ten consecutive blocks of windows, because neighboring windows
//               are not independent.
//   metric      the best validation value. Its standard error is the larger of the jitter of the
//               last evaluations (how far one is from the mean of its neighbors) and, for a share,
//               that of a share of its samples.
// The loss is how much worse the second is, relative to the first. The noise is twice the standard
// error of the difference. With a noise that is larger than both the loss and the limit, the
// judgment is kCannotTell; else the second run is worse if the loss is larger than the limit. A
// second run without a value that the first one has is worse. Pure.

#include <string>
#include <vector>

#include "report/digest.h"
#include "report/run_records.h"
#include "text/named_enum.h"

namespace dtrain::report {

enum class Judgment { kFine, kWorse, kCannotTell };
constexpr auto names_of(Judgment) { return names("fine", "worse", "cannot tell"); }

// A value with its standard error; NaN where it is not known.
struct Measured {
  double value = kUnknown, error = kUnknown;
};

struct Regression {
  std::string name = {};  // "samples/s", "val mae"
  Measured first = {}, second = {};
  // Shares of the first value; loss < 0: the second is better
  double loss = kUnknown, noise = kUnknown;
  Judgment judgment = Judgment::kCannotTell;
  // Why the numbers do not decide, or which value is missing; "": the numbers say it
  std::string reason = {};
};

// UsageError if the runs are known to be of different tasks: none of their values can be compared.
void require_same_task(const RunRecords& first, const RunRecords& second);

Measured throughput(const std::vector<double>& windows);  // `windows`: ordered by step
// `values`: of all evaluations in their order; `samples`: of one of them.
Measured best_metric(const std::vector<double>& values, const MetricKind&, int64_t samples);

Regression compare(std::string name, Measured first, Measured second, bool higher_is_better,
                   double limit);

// Throughput and, if both runs have the same watched metric, that one. `limit`: 0.05 for 5 %.
std::vector<Regression> regressions(const RunRecords& first, const Digest& of_first,
                                    const RunRecords& second, const Digest& of_second,
                                    double limit);

std::string to_text(const Regression&, double limit);  // one line

}  // namespace dtrain::report
