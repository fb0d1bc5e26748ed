#pragma once

// How long the learning rate rises at the start of a run: `500` or `500steps` of the optimizer,
// `5%` of all steps of the run, or the shorter of both, `500steps,5%`. `0`: it does not. Pure.

#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::config {

struct WarmUp {
  int64_t steps = 0;   // 0: does not count
  double percent = 0;  // percentage of all steps; 0: does not count
  bool operator==(const WarmUp&) const = default;

  int64_t of(int64_t total_steps) const;  // number of steps; a share is at least one step
};

// If `text` is wrong, changes nothing and returns what is wrong with it; otherwise returns "".
std::string parse_warm_up(std::string_view text, WarmUp&);
std::string to_string(const WarmUp&);  // parse_warm_up() restores it bit by bit

}  // namespace dtrain::config
