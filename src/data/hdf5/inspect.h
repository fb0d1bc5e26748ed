#pragma once

// What `dtrain inspect` says about a data file: one aligned line per fact.

#include <filesystem>
#include <string>

namespace dtrain::data {

// Schema, counts, sizes, splits, ranges of the targets, checksum, attributes. `verify` also reads every sample and
// compares its checksum. Throws DataError as Store::open and Store::verify do.
std::string inspect_data(const std::filesystem::path& file, bool verify);

}  // namespace dtrain::data
