#pragma once

#include <cstdint>
#include <limits>

namespace dtrain::train {

// The share of what was computed on that was padding, from rows that were valid and cells that were there. NaN: there
// were no padded batches.
inline double padding_waste(int64_t rows, int64_t cells) {
  return cells > 0 ? 1 - static_cast<double>(rows) / static_cast<double>(cells)
                   : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace dtrain::train
