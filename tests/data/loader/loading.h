#pragma once

// What the loader's tests share: ids, options, and the error of a loader that fails.

#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/loader/loader.h"

namespace dtrain::testing {

inline std::vector<int64_t> all_ids(int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

inline data::LoaderOptions options_of(int64_t batch, int64_t global, int64_t steps, int threads = 2,
                                      int prefetch = 3) {
  data::LoaderOptions options;
  options.batch_size = batch, options.global_batch = global, options.steps = steps;
  options.threads = threads, options.prefetch = prefetch;
  return options;
}

// Loads until an error, and returns its message; "no error" if there is none.
inline std::string error_of_next(data::Loader& loader) {
  try {
    while (!loader.done()) loader.next();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace dtrain::testing
