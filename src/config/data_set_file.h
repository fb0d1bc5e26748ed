#pragma once

// The file of a data set that is named instead: `dtrain convert NAME` writes data/NAME.h5, and
// `--dataset NAME` of every command reads it. Pure but for the last function.

#include <filesystem>
#include <string>
#include <string_view>

#include "catalog/catalog.h"

namespace dtrain::config {

std::string file_of_data_set(std::string_view name);  // "data/NAME.h5"

// DataError that says which command makes `file`, if it is not there.
void require_data_set(const catalog::DataSetEntry&, const std::filesystem::path& file);

}  // namespace dtrain::config
