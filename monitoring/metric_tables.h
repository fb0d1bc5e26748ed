#pragma once

// The tables of docs/metrics.md, from those of the program: every series (series.h), and every
// measured value in the records of ranks (measure/quantity.h). Pure.

#include <string>
#include <string_view>

namespace dtrain::monitoring {

// One table in Markdown. `name`: series, gpu series, launch series or quantities; DataError for
// another one.
std::string metric_table(std::string_view name);

}  // namespace dtrain::monitoring
