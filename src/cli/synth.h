#pragma once

// `dtrain synth headpose`: generated heads at known angles, as HDF5 or in a published layout.

#include <string>
#include <vector>

namespace dtrain::cli {

// `arguments` are those behind the command. Returns the exit code; throws UsageError, OutputError.
int run_synth(const std::vector<std::string>& arguments);

}  // namespace dtrain::cli
