#pragma once

// What `dtrain tune` found, as text for people and as JSON for programs. Pure.

#include <string>

#include "tune/tuner.h"

namespace dtrain::tune {

// `patch`: the file that was written; "": none.
std::string text_of(const TuneResult&, const std::string& patch);
std::string json_of(const TuneResult&, const std::string& patch);

}  // namespace dtrain::tune
