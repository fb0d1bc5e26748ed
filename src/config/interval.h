#pragma once

// How often something happens: every `500s` optimizer steps, `2e` epochs or `10m` minutes, or several of these
// separated by commas, whichever comes first. A whole number alone counts steps; `never` means never. Pure.

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::config {

struct Interval {
  int64_t steps = 0, epochs = 0;  // 0: does not count
  double minutes = 0;
  bool operator==(const Interval&) const = default;

  // Whether it is due at the end of optimizer step `step` (1-based) by steps or epochs. Minutes do not count here.
  bool due(int64_t step, int64_t steps_per_epoch) const {
    return (steps > 0 && step % steps == 0) || (epochs > 0 && step % (epochs * steps_per_epoch) == 0);
  }
};

// If `text` is wrong, changes nothing and returns what is wrong with it; otherwise returns "".
std::string parse_interval(std::string_view text, Interval& interval);
std::string to_string(const Interval&);  // parse_interval() restores it bit by bit

}  // namespace dtrain::config
