#include "export/int8.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/check.h"
#include "export/run_graph.h"

namespace dtrain::exporting {
namespace {

constexpr int64_t kBins = 2048;

// In two passes over the samples: the bounds first, then the counts.
std::map<std::string, Histogram> histograms(const Graph& graph, const Batches& batches) {
  const std::vector<std::string> names = activations_to_quantize(graph);
  const std::set<std::string> wanted(names.begin(), names.end());
  const GraphRunner runner(graph);
  std::map<std::string, Histogram> found;
  for (const std::string& name : names) found[name].counts.assign(kBins, 0);
  const auto pass = [&](const std::function<void(Histogram&, const at::Tensor&)>& take) {
    batches([&](const at::Tensor& inputs, const at::Tensor&) {
      runner.run(inputs, [&](const std::string& name, const at::Tensor& values) {
        if (wanted.contains(name)) take(found[name], values);
      });
    });
  };
  pass([&](Histogram& histogram, const at::Tensor& values) {
    const auto [least, most] = at::aminmax(values);
    const float low = least.item<float>(), high = most.item<float>();  // NaN if any value is
    if (!std::isfinite(low) || !std::isfinite(high)) {
      throw NumericsError(str(
          "an activation of ", graph.name,
          " is not finite on the calibration samples: the checkpoint's weights, or these samples, "
          "cannot be quantized"));
    }
    histogram.low = std::min(histogram.low, low);
    histogram.high = std::max(histogram.high, high);
  });
  pass([](Histogram& histogram, const at::Tensor& values) {
    if (histogram.high > histogram.low) count(values, histogram);  // else all zeros
  });
  return found;
}

// Root mean squares of the float32 outputs and of the difference between another graph's outputs
// and them.
std::pair<double, double> output_difference(const Graph& graph, const Graph& other,
                                            const Batches& batches) {
  const GraphRunner expected(graph), actual(other);
  double sum = 0, difference = 0, count = 0;
  batches([&](const at::Tensor& inputs, const at::Tensor&) {
    const at::Tensor output = expected.run(inputs).to(at::kDouble);
    sum += output.square().sum().item<double>();
    difference += (actual.run(inputs).to(at::kDouble) - output).square().sum().item<double>();
    count += static_cast<double>(output.numel());
  });
  return {std::sqrt(sum / count), std::sqrt(difference / count)};
}

}  // namespace

void count(const at::Tensor& values, Histogram& histogram) {
  constexpr int64_t kExact = int64_t{1}
                             << 24;  // histc counts in float32, which is exact up to 2^24
  for (const at::Tensor& part : values.reshape({-1}).split(kExact)) {
    const at::Tensor counts = at::histc(part, static_cast<int64_t>(histogram.counts.size()),
                                        histogram.low, histogram.high);
    const float* of_bin = counts.const_data_ptr<float>();
    for (int64_t& total : histogram.counts) total += static_cast<int64_t>(*of_bin++);
  }
}

Int8Graph to_int8(const Graph& graph, const Batches& calibration) {
  const std::map<std::string, Histogram> seen = histograms(graph, calibration);
  std::map<std::string, ActivationRange> whole, clipped;
  for (const auto& [name, histogram] : seen) {
    whole[name] = {histogram.low, histogram.high};
    clipped[name] = least_error_range(histogram);
  }
  Int8Graph best;
  for (const auto& [name, ranges] :
       {std::pair("min-max", &whole), std::pair("least squared error", &clipped)}) {
    Graph candidate = quantize(graph, *ranges);
    const auto [output_rms, difference_rms] = output_difference(graph, candidate, calibration);
    if (best.clipping.empty() || difference_rms < best.difference_rms) {
      best = {std::move(candidate), name, output_rms, difference_rms};
    }
  }
  return best;
}

Score score(const Graph& graph, const Batches& batches, double output_scale) {
  const GraphRunner runner(graph);
  Score score;
  double sum = 0, weight = 0;
  batches([&](const at::Tensor& inputs, const at::Tensor& targets) {
    const at::Tensor output = runner.run(inputs);
    score.samples += inputs.size(0);
    if (targets.scalar_type() == at::kLong) {
      score.name = "top-1";
      sum += 100.0 * (output.argmax(1) == targets).sum().item<double>();
      weight += static_cast<double>(targets.numel());
    } else {
      score.name = "mean absolute error";
      sum += (output.to(at::kDouble) * output_scale - targets.to(at::kDouble))
                 .abs()
                 .sum()
                 .item<double>();
      weight += static_cast<double>(targets.numel());
    }
  });
  score.value = sum / weight;
  return score;
}

}  // namespace dtrain::exporting
