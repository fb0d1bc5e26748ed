#pragma once

// Images in memory (RGB, 8 bits per channel, rows from top to bottom): reads JPEG, PNG and WebP,
// writes JPEG and PNG, applies Exif orientations, resamples. Errors: DataError with the codec's
// reason for a damaged file. A truncated JPEG is damaged, although libjpeg would fill the missing
// part with gray. Thread-safety: all functions may be called from any thread.

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
  Image(int w, int h)
      : width(w), height(h), rgb(static_cast<size_t>(w) * static_cast<size_t>(h) * 3) {}
  uint8_t* at(int x, int y) { return rgb.data() + 3 * (int64_t{y} * width + x); }
  const uint8_t* at(int x, int y) const { return const_cast<Image*>(this)->at(x, y); }
};

// Decodes a JPEG (gray, YCbCr, RGB, CMYK or YCCK; also progressive), a PNG (gray, palette or RGB, 1
// to 16 bits) or a WebP (lossy or lossless, not animated); the first bytes decide which. `behind`
// is the gray level behind transparent pixels. Does not apply the Exif orientation, nor gamma
// values or color profiles.
Image decode_image(std::span<const std::byte> bytes, uint8_t behind = 0);
// Decodes a file; error messages do not include its name
Image read_image(const std::filesystem::path& file);

// decode_image() for JPEG. Accepts what some cameras and programs write and what changes no pixel:
// stray bytes between segments, unknown versions of JFIF, wrong parameters of a sequential scan,
// and an unknown Adobe color transform. Any other warning of libjpeg means that pixels are missing
// or wrong, and is a DataError with libjpeg's message.
Image decode_jpeg(std::span<const std::byte> bytes);
Image decode_png(std::span<const std::byte> bytes, uint8_t behind);   // decode_image() for PNG
Image decode_webp(std::span<const std::byte> bytes, uint8_t behind);  // decode_image() for WebP

// The Exif orientation of a photo (Exif 2.3, tag 0x0112; in the APP1 segment of a JPEG, the eXIf
// chunk of a PNG or the EXIF chunk of a WebP), 1 to 8. Cameras store pixels as the sensor reads
// them, and viewers rotate the image. 1 means no rotation, and is also returned if the file has no
// orientation or a damaged one.
int exif_orientation(std::span<const std::byte> file);
Image upright(Image, int orientation);  // rotates and mirrors the image as a viewer would

// An image of RGBA pixels put over a gray level, without gamma correction (as Pillow and
// browsers do).
Image over(uint8_t behind, std::span<const uint8_t> rgba, int width, int height);

// Throws DataError for an implausible width, height or area, so that a small file cannot use up
// all memory.
void check_size(int width, int height);

std::vector<std::byte> encode_jpeg(const Image&, int quality = 95);
std::vector<std::byte> encode_png(const Image&);

Image mirrored(const Image&);  // exchanges left and right

// A rectangle in pixel coordinates: pixel (x, y) covers [x, x + 1) × [y, y + 1). It may extend
// beyond the image.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// Scales the part `box` of the image to width × height. Downscaling is antialiased (a triangle
// filter as wide as the step, as in PIL and torch), upscaling is bilinear. Outside the image, the
// nearest border pixel is repeated.
Image resample(const Image&, const Box& box, int width, int height);

}  // namespace dtrain::formats
