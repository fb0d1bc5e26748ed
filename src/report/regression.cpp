#include "report/regression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "report/card.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

constexpr size_t kBlocks = 10, kFewestBlocks = 4, kFewestDistances = 2;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// The standard deviation of one value: how far an evaluation typically is from the mean of those
// before and after it, so that steady progress is no noise. Of the last third of the run, or of its
// last five evaluations.
double jitter(const std::vector<double>& values) {
  const size_t last = std::max<size_t>(5, values.size() / 3),
               begin = values.size() > last ? values.size() - last : 0;
  std::vector<double> distances;
  for (size_t i = begin + 1; i + 1 < values.size(); ++i) {
    distances.push_back(std::abs(values[i] - (values[i - 1] + values[i + 1]) / 2));
  }
  return distances.size() < kFewestDistances
             ? kUnknown
             : median(std::move(distances)) * 1.4826 / std::sqrt(1.5);
}

std::vector<double> validation_values(const RunRecords& run, const std::string& metric,
                                      int64_t* samples) {
  std::vector<double> values;
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    const double value = evaluation.metric(metric);
    if (evaluation.split != "val" || !std::isfinite(value)) continue;
    values.push_back(value);
    *samples = evaluation.samples;
  }
  return values;
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

}  // namespace

void require_same_task(const RunRecords& first, const RunRecords& second) {
  const std::string a = first.task(), b = second.task();
  if (a.empty() || b.empty() || a == b) return;
  throw UsageError(str("--max-regression compares two runs of one task: ", first.name, " is of ", a,
                       ", ", second.name, " of ", b));
}

Measured throughput(const std::vector<double>& windows) {
  Measured result{.value = median(windows)};
  const size_t blocks = std::min(kBlocks, windows.size());
  if (blocks < kFewestBlocks) return result;
  std::vector<double> means;
  for (size_t block = 0; block < blocks; ++block) {
    const auto at = [&](size_t i) {
      return windows.begin() + static_cast<std::ptrdiff_t>(i * windows.size() / blocks);
    };
    means.push_back(mean({at(block), at(block + 1)}));
  }
  result.error = deviation(means) / std::sqrt(static_cast<double>(blocks));
  return result;
}

Measured best_metric(const std::vector<double>& values, const MetricKind& kind, int64_t samples) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Measured result{.value = kind.higher_is_better ? *most : *least, .error = jitter(values)};
  if (kind.unit == "share" && samples > 0 && result.value >= 0 && result.value <= 1) {
    const double of_samples =
        std::sqrt(result.value * (1 - result.value) / static_cast<double>(samples));
    result.error = std::isnan(result.error) ? of_samples : std::max(result.error, of_samples);
  }
  return result;
}

Regression compare(std::string name, Measured first, Measured second, bool higher_is_better,
                   double limit) {
  Regression result{.name = std::move(name), .first = first, .second = second};
  if (std::isnan(first.value) || std::isnan(second.value)) {
    result.reason =
        str(std::isnan(first.value) ? "the first" : "the second", " run has no such value");
    // A run that ended before it had one must not pass a gate.
    if (!std::isnan(first.value)) result.judgment = Judgment::kWorse;
    return result;
  }
  const double worse_by =
      higher_is_better ? first.value - second.value : second.value - first.value;
  const double scale = std::abs(first.value);
  if (scale == 0) {
    result.loss = worse_by == 0 ? 0 : std::copysign(HUGE_VAL, worse_by);
  } else {
    result.loss = worse_by / scale;
  }
  if (std::isnan(first.error) || std::isnan(second.error)) {
    result.reason =
        str("its noise is not known: ", std::isnan(first.error) ? "the first" : "the second",
            " run is too short for it");
    return result;
  }
  result.noise = scale == 0 ? 0 : 2 * std::hypot(first.error, second.error) / scale;
  if (result.noise > std::max(result.loss, limit)) return result;
  result.judgment = result.loss > limit ? Judgment::kWorse : Judgment::kFine;
  return result;
}

std::vector<Regression> regressions(const RunRecords& first, const Digest& of_first,
                                    const RunRecords& second, const Digest& of_second,
                                    double limit) {
  std::vector<Regression> all = {compare("samples/s", throughput(of_first.speeds),
                                         throughput(of_second.speeds),
                                         /*higher_is_better=*/true, limit)};
  const std::string& metric = first.best_metric;
  if (metric.empty()) {
    all.push_back({.name = "val metric", .reason = "the first run has no evaluation"});
    return all;
  }
  if (second.best_metric.empty()) {
    all.push_back({.name = "val " + metric,
                   .judgment = Judgment::kWorse,
                   .reason = "the second run has no evaluation"});
    return all;
  }
  if (metric != second.best_metric) {
    all.push_back({.name = "val metric",
                   .reason = str("the runs watch ", metric, " and ", second.best_metric)});
    return all;
  }
  const MetricKind kind = kind_of_metric(first, metric);
  if (!kind.known) {
    all.push_back({.name = "val " + metric, .reason = "nothing says whether more of it is better"});
    return all;
  }
  int64_t samples_of_first = 0, samples_of_second = 0;
  const Measured a =
      best_metric(validation_values(first, metric, &samples_of_first), kind, samples_of_first);
  const Measured b =
      best_metric(validation_values(second, metric, &samples_of_second), kind, samples_of_second);
  all.push_back(compare("val " + metric, a, b, kind.higher_is_better, limit));
  return all;
}

std::string to_text(const Regression& r, double limit) {
  const std::string values =
      str(r.name, ": ", short_number(r.first.value), " -> ", short_number(r.second.value));
  if (!r.reason.empty()) {
    return str(values, ": ", r.judgment == Judgment::kWorse ? "WORSE" : "cannot tell", ": ",
               r.reason);
  }
  const std::string change = str(percent(std::abs(r.loss)), r.loss > 0 ? " worse" : " better",
                                 ", noise ", percent(r.noise));
  switch (r.judgment) {
    case Judgment::kFine:
      return str(values, ": fine: ", change, ", limit ", percent(limit));
    case Judgment::kWorse:
      return str(values, ": WORSE: ", change, ", limit ", percent(limit));
    default:
      return str(values, ": cannot tell: ", change, ", which hides the limit of ", percent(limit));
  }
}

}  // namespace dtrain::report
