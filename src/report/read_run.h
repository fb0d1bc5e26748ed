#pragma once

// Reads a run folder. The files may be half written, still growing, older or newer than this
// program, or made by others: what is missing or damaged is left out and named in `gaps`, and sizes
// are bounded, so that no file can crash the reader or use up the memory. Writes nothing.
// Thread-safety: pure but for the file system.

#include <cstdint>
#include <filesystem>

#include "report/run_records.h"

namespace dtrain::report {

// Reads the whole run, of a metrics.jsonl of more than `most_bytes` its beginning and its end.
// `own`: the caller trained it, and still holds its lock. DataError if `folder` is no run: with
// what it is instead.
inline constexpr int64_t kMostBytes = int64_t{1} << 30;
RunRecords read_run(const std::filesystem::path& folder, bool own = false,
                    int64_t most_bytes = kMostBytes);

}  // namespace dtrain::report
