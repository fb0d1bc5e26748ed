#pragma once

// What `dtrain tune` found, as text for people and as JSON for programs. Pure.

#include <string>

#include "tune/tune_result.h"

namespace dtrain::tune {

// `patch`: the file that was written; "": none.
std::string text_of(const TuneResult&, const std::string& patch);
// "500.0 samples/s in place of 400.0 (+25.0 %)"; "": no rate was measured.
std::string gain_text(const TuneResult&);
// The line for `measured` of the card in src/catalog/gpus.cpp; "": the card is not there, or its
// limit was not found.
std::string catalog_row(const TuneResult&);
std::string json_of(const TuneResult&, const std::string& patch);

}  // namespace dtrain::tune
