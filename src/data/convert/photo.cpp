#include "data/convert/photo.h"

#include <algorithm>

#include "data/convert/exif.h"

namespace dtrain::data {

Image stored_photo(std::span<const std::byte> bytes, int side) {
  constexpr uint8_t kWhite = 255;
  const Image image = upright(decode_image(bytes, kWhite), exif_orientation(bytes));
  // The middle square of the scaled picture is the scaled middle square.
  const double square = std::min(image.width, image.height);
  const double left = (image.width - square) / 2, top = (image.height - square) / 2;
  if (image.width == side && image.height == side) return image;
  return resample(image, {left, top, left + square, top + square}, side, side);
}

}  // namespace dtrain::data
