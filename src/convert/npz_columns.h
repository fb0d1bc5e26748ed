#pragma once

// Arrays of an .npz file that hold one whole number per sample, as the layouts `pointer` and `arrays` have them.
// Errors: DataError with the array's name, without the file's.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/npz.h"

namespace dtrain::convert {

// An array of one dimension, of `count` elements unless that is -1; nullopt if the file has no such array.
std::optional<std::vector<int64_t>> whole_numbers(const formats::NpzFile&, const std::string& name, int64_t count);

// The splits by sample, from the array `split`: 0 train, 1 val, 2 test. Empty if the file has no such array.
std::vector<std::string> split_names(const formats::NpzFile&, int64_t samples);

}  // namespace dtrain::convert
