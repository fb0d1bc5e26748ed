#pragma once

// The real file system for a place where somebody watches: a slow disk is told from one that hangs.

#include <cstdint>
#include <functional>
#include <memory>

#include "core/file_system.h"

namespace dtrain {

// `moved` is called on the calling thread after each operation, and within a long write each time that `piece_bytes`
// more have reached the disk (not only its cache: a write is quick until the cache is full, and then the fsync is
// long).
std::unique_ptr<FileSystem> make_moving_files(std::function<void()> moved, int64_t piece_bytes = int64_t{64} << 20);

}  // namespace dtrain
