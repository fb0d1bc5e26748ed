#pragma once

// `dtrain convert NAME DIR`: a published data set's folder -> one dtrain HDF5 file.

#include <string>
#include <vector>

namespace dtrain::cli {

// `arguments` are those behind the command. Returns the exit code; throws UsageError, DataError, OutputError.
int run_convert(const std::vector<std::string>& arguments);

}  // namespace dtrain::cli
