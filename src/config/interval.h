#pragma once

// How often something happens: every `500steps` (of the optimizer), `2epochs`, `10min` or `30sec`,
// or several of these separated by commas, whichever comes first. A whole number alone counts
// steps; `never` means never. Pure.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::config {

struct Interval {
  int64_t steps = 0, epochs = 0;    // 0: does not count
  double minutes = 0, seconds = 0;  // the values as given; period() combines both
  bool operator==(const Interval&) const = default;

  // Whether it is due at the end of optimizer step `step` (1-based) by steps or epochs. Time does
  // not count here.
  bool due(int64_t step, int64_t steps_per_epoch) const {
    return (steps > 0 && step % steps == 0) ||
           (epochs > 0 && step % (epochs * steps_per_epoch) == 0);
  }

  double period() const {  // seconds; 0: time does not count
    if (minutes > 0 && seconds > 0) return std::min(minutes * 60, seconds);
    return minutes > 0 ? minutes * 60 : seconds;
  }
};

// Runs that were saved before the units were words have `500s` (steps), `2e` (epochs) and `10m`
// (minutes). People read the first as seconds, so only the configuration of a saved run may still
// have them.
enum class IntervalUnits { kWords, kWordsAndLetters };

// If `text` is wrong, changes nothing and returns what is wrong with it; otherwise returns "".
std::string parse_interval(std::string_view text, Interval& interval,
                           IntervalUnits units = IntervalUnits::kWords);
std::string to_string(const Interval&);  // parse_interval() restores it bit by bit

inline constexpr const char* kIntervalForms = "500steps, 2epochs, 10min, 30sec";

}  // namespace dtrain::config
