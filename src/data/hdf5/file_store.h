#pragma once

// A dtrain HDF5 file (docs/file_formats.md): opened as a Store, and described for `dtrain inspect`.
//
// The HDF5 library is used only to find where the bytes of each dataset are. Samples are then read
// with pread at those offsets, by any number of threads and without the library's global lock.
// Errors: DataError; for a file of another format it suggests `dtrain convert`.

#include <filesystem>
#include <memory>
#include <string>

#include "data/hdf5/layout.h"
#include "data/store.h"

namespace dtrain::data {

// Checks the layout and opens its file, without the HDF5 library.
std::unique_ptr<Store> open_file(const Layout& layout);
// For a trusted file: calls probe() here, and a damaged one can crash it (probe_process.h).
std::unique_ptr<Store> open_file(const std::filesystem::path& file);

// The report of `dtrain inspect`, one aligned line per fact: schema, counts, sizes, splits, ranges
// of the targets, checksum, attributes. With `verify` it also calls Store::verify(), and says what
// no checksum covers. Throws DataError as open_file() and verify() do.
std::string inspect_data(const Layout& layout, bool verify, const ReportProgress& report = {});

}  // namespace dtrain::data
