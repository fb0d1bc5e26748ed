#pragma once

// A dtrain HDF5 file (docs/file_formats.md) as a Store. The HDF5 library only opens the file and reports where the bytes
// of each dataset are; samples are then read with pread at those offsets, from any number of threads and without the
// library's lock. A file without `format = dtrain` is refused, and the error names `dtrain convert`.

#include <filesystem>
#include <memory>

#include "data/hdf5/layout.h"
#include "data/store.h"

namespace dtrain::data {

std::unique_ptr<Store> open_file(const std::filesystem::path& file);  // probes the file in this process. DataError
std::unique_ptr<Store> open_file(const Layout& layout);               // without the HDF5 library. DataError

}  // namespace dtrain::data
