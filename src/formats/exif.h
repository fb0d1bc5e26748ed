#pragma once

// The orientation that a camera notes in a photo (Exif 2.3, tag 0x0112; in the APP1 segment of a JPEG or the eXIf chunk
// of a PNG). Cameras store pixels as the sensor has them and leave turning to the viewer.

#include <cstddef>
#include <span>

#include "formats/image.h"

namespace dtrain::formats {

// 1 to 8; 1 (as stored) where the picture has no note or a damaged one, which harms no pixel.
int exif_orientation(std::span<const std::byte> picture);

Image upright(Image, int orientation);

}  // namespace dtrain::formats
