#pragma once

// What a verdict could not look at, because this machine does not measure it or because it has not
// happened yet. Pure.

#include <string>
#include <vector>

#include "diagnose/evidence.h"

namespace dtrain::diagnose {

// In words, each once, with the reason where it is known. Requires: there is a rank.
std::vector<std::string> not_measured(const RunEvidence&);

}  // namespace dtrain::diagnose
