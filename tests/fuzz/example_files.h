#pragma once

// Small valid data files of each kind, as this dtrain writes them and as its first version did.

#include <filesystem>
#include <vector>

namespace dtrain::testing {

// Writes headpose, classify, sequence and pointer files into `folder`, each as NAME.h5 and as
// NAME-old.h5: HDF5 1.6's metadata, text of variable length, no attributes_checksum. Returns
// their paths.
std::vector<std::filesystem::path> write_example_files(const std::filesystem::path& folder);

}  // namespace dtrain::testing
