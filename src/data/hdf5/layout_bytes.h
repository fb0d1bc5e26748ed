#pragma once

// A Layout as bytes, for its way from the process that read the file to the process that uses it.
// Not a file format: both are the same program. Thread-safety: pure functions.

#include <filesystem>
#include <string>
#include <string_view>

#include "data/hdf5/layout.h"

namespace dtrain::data {

std::string encode(const Layout&);  // all but its path

// The layout of `file`, from the bytes that encode() made. A malicious file may have taken over the
// process that sent them, so they can be any bytes: throws DataError if they are not a layout, and
// allocates only a small multiple of their size. What the layout says is for check() to judge.
Layout decode(std::string_view bytes, const std::filesystem::path& file);

}  // namespace dtrain::data
