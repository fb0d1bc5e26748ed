#include "tasks/classify/class_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

double number(const std::string& text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0) {
    throw ConfigError(
        str("train.class_weights: '", text,
            "' is not a number of at least 0; expected none, balanced or a list such as 1,0.5,2"));
  }
  return *value;
}

}  // namespace

std::vector<double> class_weights(const std::string& text, const std::vector<std::string>& classes,
                                  const std::vector<int64_t>& counts) {
  if (text == "none") return std::vector<double>(classes.size(), 1);
  std::vector<double> weights;
  if (text == "balanced") {
    if (counts.size() != classes.size())
      return std::vector<double>(classes.size(), 1);  // not for training
    const auto present = static_cast<double>(
        std::count_if(counts.begin(), counts.end(), [](int64_t n) { return n > 0; }));
    const auto samples =
        static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    for (const int64_t count : counts)
      weights.push_back(count > 0 ? samples / (present * static_cast<double>(count)) : 0);
    return weights;
  }
  for (const std::string& part : split(text, ',')) weights.push_back(number(part));
  if (weights.size() != classes.size()) {
    throw ConfigError(str("train.class_weights: ", weights.size(), " numbers for ", classes.size(),
                          " classes (", join(classes, ", "), ")"));
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
    throw ConfigError("train.class_weights: all are 0; nothing would be learned");
  }
  return weights;
}

double mean_weight(const std::vector<double>& weights, const std::vector<int64_t>& counts) {
  const bool counted = counts.size() == weights.size();
  double sum = 0, samples = 0;
  for (size_t c = 0; c < weights.size(); ++c) {
    const double count = counted ? static_cast<double>(counts[c]) : 1;
    sum += weights[c] * count;
    samples += count;
  }
  return samples > 0 && sum > 0 ? sum / samples : 1;
}

}  // namespace dtrain::tasks
