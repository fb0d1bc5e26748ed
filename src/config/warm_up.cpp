#include "config/warm_up.h"

#include <algorithm>
#include <cmath>

#include "config/count_text.h"
#include "config/plain_text.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

constexpr double kMostSteps = 1e9;

// "500steps", "500" or "5%", which `warm_up` does not have yet.
bool add(std::string_view part, WarmUp& warm_up) {
  if (part.ends_with('%')) {
    part.remove_suffix(1);
    return warm_up.percent == 0 && parse_count(part, 100, warm_up.percent);
  }
  for (const std::string_view unit : {"steps", "step"}) {
    if (!part.ends_with(unit)) continue;
    part.remove_suffix(unit.size());
    break;
  }
  return warm_up.steps == 0 && parse_count(part, kMostSteps, warm_up.steps);
}

}  // namespace

int64_t WarmUp::of(int64_t total_steps) const {
  if (percent == 0) return steps;
  const int64_t share =
      std::max<int64_t>(1, std::llround(percent / 100 * static_cast<double>(total_steps)));
  return steps > 0 ? std::min(steps, share) : share;
}

std::string parse_warm_up(std::string_view text, WarmUp& warm_up) {
  WarmUp parsed;
  const std::vector<std::string> parts = split(text, ',');
  const bool none = text == "0" || text == "0steps" || text == "0%";
  if (!none && !std::ranges::all_of(
                   parts, [&](const std::string& part) { return add(trimmed(part), parsed); })) {
    return str(in_quotes(text),
               " is not a warm-up; expected: 500 or 500steps, 5% of all steps, or the shorter of ",
               "both, 500steps,5%");
  }
  warm_up = parsed;
  return "";
}

std::string to_string(const WarmUp& warm_up) {
  if (warm_up.percent == 0) return str(warm_up.steps);
  return str(warm_up.steps > 0 ? str(warm_up.steps, "steps,") : "", all_digits(warm_up.percent),
             "%");
}

}  // namespace dtrain::config
