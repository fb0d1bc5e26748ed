#pragma once

// A cause that holds a run back, and what a run would gain without it. Values, made by
// find_causes.h from measurements and chosen by verdict.h.

#include <optional>
#include <string>

#include "diagnose/causes.h"
#include "diagnose/what_if.h"

namespace dtrain::diagnose {

// `otherwise` of a setting that makes the global batch larger.
inline constexpr const char* kLargerGlobalBatch =
    "(a larger global batch, which may need another learning rate)";

inline constexpr double kLeastGain = 0.03;  // what is less is not worth a change

struct Finding {
  Cause cause{};
  int rank = -1;              // -1: all ranks alike
  std::string evidence = "";  // "8.1 of 13.0 ms waiting for data"
  // absent: none can be computed. judge() sets it where `without` is given
  std::optional<Gain> gain = {};
  // That brings the gain: "--data.workers 8"; "": `otherwise` says what does
  std::string setting = "";
  std::string otherwise =
      "";  // "without the other processes of this host", or more about the setting
  std::optional<WhatIf> without = {};  // the steps as they would have been
};

}  // namespace dtrain::diagnose
