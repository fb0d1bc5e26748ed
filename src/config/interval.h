#pragma once

// How often something happens: `500s` optimizer steps, `2e` epochs, `10m` minutes, or several joined by commas,
// whichever comes first. A whole number alone counts steps; `never` is what it says. Pure.

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::config {

struct Interval {
  int64_t steps = 0, epochs = 0;  // 0: not by it
  double minutes = 0;
  bool operator==(const Interval&) const = default;

  // Whether it is due at the end of optimizer step `step` (1-based), as far as steps and epochs go.
  bool due(int64_t step, int64_t steps_per_epoch) const {
    return (steps > 0 && step % steps == 0) || (epochs > 0 && step % (epochs * steps_per_epoch) == 0);
  }
};

// Returns what is wrong with `text`, and changes nothing then; "" when all is well.
std::string parse_interval(std::string_view text, Interval& interval);
std::string to_string(const Interval&);  // such that parse_interval() restores it bit by bit

}  // namespace dtrain::config
