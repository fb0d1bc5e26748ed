#pragma once

// JPEG alone: see decode_image() of image.h, which tells the formats apart.
// Thread-safety: may be called from any thread.

#include <cstddef>
#include <span>

#include "data/convert/image.h"

namespace dtrain::data {

// Stray bytes between segments, in the header too, are skipped: cameras leave them. Everything else that libjpeg
// complains about means that pixels are missing or wrong, and is a DataError with its words.
Image decode_jpeg(std::span<const std::byte> bytes);

}  // namespace dtrain::data
