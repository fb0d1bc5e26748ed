#pragma once

// Recognizes what dtrain itself has written, for protect() (os/output_guard.h): a file in a folder
// of raw data may be replaced with --force if it is no raw data but the result of an earlier
// command. What `export` writes does not lie in such folders, so it is not recognized.

#include <filesystem>

#include "data/hdf5/probe_process.h"

namespace dtrain::cli {

// Whether the file is a dtrain HDF5 file, rows of `predict`, a report of `eval`, or a list of
// quarantined samples. Judged by its content alone; `prober` opens HDF5 files. False for a file
// that cannot be read.
bool is_earlier_output(data::ProbeProcess& prober, const std::filesystem::path& file);

}  // namespace dtrain::cli
