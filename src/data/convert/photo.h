#pragma once

// A photo as `convert images` stores it and `predict` reads it.

#include <cstddef>
#include <span>

#include "data/convert/image.h"

namespace dtrain::data {

// JPEG or PNG -> side × side pixels: turned upright (Exif), over white where it is transparent, the shorter side scaled
// to `side` (antialiased) and the middle square kept. Throws DataError with the reason.
// Thread-safety: may be called from any thread.
Image stored_photo(std::span<const std::byte> bytes, int side);

}  // namespace dtrain::data
