#pragma once

// Pictures in memory (RGB, 8 bit, rows from the top) and their files. A damaged file is a DataError with the codec's
// reason; a truncated JPEG counts as damaged although its codec would fill the rest with grey.
// Thread-safety: all functions may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace dtrain::formats {

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // height × width × 3
  Image() = default;
  Image(int w, int h) : width(w), height(h), rgb(static_cast<size_t>(w) * static_cast<size_t>(h) * 3) {}
  uint8_t* at(int x, int y) { return rgb.data() + (static_cast<size_t>(y) * static_cast<size_t>(width) + x) * 3; }
  const uint8_t* at(int x, int y) const { return const_cast<Image*>(this)->at(x, y); }
};

// JPEG (of any colours: grey, YCbCr, RGB, CMYK, YCCK; progressive too) or PNG (grey, palette, 1 to 16 bits; `behind`:
// the grey level that shows through transparent pixels), told apart by their first bytes. Pixels as stored: see exif.h.
Image decode_image(std::span<const std::byte> bytes, uint8_t behind = 0);
Image read_image(const std::filesystem::path& file);  // the same of a file; the message does not repeat its name

// The JPEG part of it. Stray bytes between segments, in the header too, are skipped: cameras leave them. Everything
// else that libjpeg complains about means that pixels are missing or wrong, and is a DataError with its words.
Image decode_jpeg(std::span<const std::byte> bytes);

// Throws DataError for sides and areas that no picture has: a small file must not take all memory.
void check_size(int width, int height);

std::vector<std::byte> encode_jpeg(const Image&, int quality = 95);
std::vector<std::byte> encode_png(const Image&);

Image mirrored(const Image&);  // left and right exchanged

// A rectangle in pixel coordinates: the pixel (x, y) covers [x, x + 1) × [y, y + 1). It may leave the picture.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// `box` of the picture scaled to width × height. Downscaling is antialiased (a triangle filter as wide as the step, as
// in PIL and torch), upscaling bilinear; where the box leaves the picture, the nearest border pixel goes on.
Image resample(const Image&, const Box& box, int width, int height);

}  // namespace dtrain::formats
