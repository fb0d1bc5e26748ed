#include "formats/image.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace dtrain::formats {
namespace {

constexpr int kAsStored = 1;
using Bytes = std::span<const std::byte>;

std::string_view text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The unsigned integer of `count` bytes at `at`; 0 if it is beyond the end.
uint32_t number(Bytes bytes, size_t at, int count, bool big_endian) {
  if (at > bytes.size() || bytes.size() - at < static_cast<size_t>(count)) return 0;
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    const auto byte = std::to_integer<uint32_t>(bytes[at + static_cast<size_t>(i)]);
    value |= byte << 8 * (big_endian ? count - 1 - i : i);
  }
  return value;
}

// The bytes of a value of an integer type of TIFF; 0 for other types. Exif has SHORT for the
// orientation; some programs write LONG, or a signed type.
int integer_bytes(uint32_t type) {
  constexpr uint32_t kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9;
  if (type == kShort || type == kSignedShort) return 2;
  return type == kLong || type == kSignedLong ? 4 : 0;
}

// Exif data is a small TIFF file; its first directory has the orientation.
int orientation_of(Bytes tiff) {
  const bool big = text(tiff).starts_with(std::string_view("MM\0*", 4));
  if (!big && !text(tiff).starts_with(std::string_view("II*\0", 4))) return kAsStored;
  const size_t directory = number(tiff, 4, 4, big);
  const size_t entries = number(tiff, directory, 2, big);
  constexpr size_t kEntryBytes = 12;
  constexpr uint32_t kOrientation = 0x0112;
  for (size_t e = 0; e < entries; ++e) {
    const size_t at = directory + 2 + e * kEntryBytes;
    if (at + kEntryBytes > tiff.size()) break;
    if (number(tiff, at, 2, big) != kOrientation) continue;
    const int value_bytes = integer_bytes(number(tiff, at + 2, 2, big));
    if (value_bytes == 0) continue;
    const uint32_t value = number(tiff, at + 8, value_bytes, big);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kAsStored;
  }
  return kAsStored;
}

int of_jpeg(Bytes jpeg) {
  constexpr uint32_t kStartOfScan = 0xda, kApp1 = 0xe1;
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (size_t at = 2; at + 4 <= jpeg.size();) {
    const uint32_t marker = number(jpeg, at + 1, 1, true);
    if (jpeg[at] != std::byte{0xff} || marker == 0xff || marker == 0) {  // a stray or a fill byte
      ++at;
      continue;
    }
    if (marker == kStartOfScan) return kAsStored;
    const size_t length = number(jpeg, at + 2, 2, true);
    if (length < 2 || length > jpeg.size() - at - 2) return kAsStored;
    const Bytes segment = jpeg.subspan(at + 4, length - 2);
    if (marker == kApp1 && text(segment).starts_with(kExif))
      return orientation_of(segment.subspan(kExif.size()));
    at += 2 + length;
  }
  return kAsStored;
}

int of_png(Bytes png) {
  constexpr size_t kSignature = 8, kAround = 12;  // bytes of a chunk's length, name and CRC
  for (size_t at = kSignature; at + kAround <= png.size();) {
    const size_t length = number(png, at, 4, true);
    if (length > png.size() - at - kAround) return kAsStored;
    if (text(png.subspan(at + 4, 4)) == "eXIf") return orientation_of(png.subspan(at + 8, length));
    at += kAround + length;
  }
  return kAsStored;
}

int of_webp(Bytes webp) {
  constexpr size_t kHeader = 12, kAround = 8;  // bytes of a chunk's name and length
  // Some programs write the beginning of a JPEG's segment, too
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (size_t at = kHeader; at + kAround <= webp.size();) {
    const size_t length = number(webp, at + 4, 4, false);
    if (length > webp.size() - at - kAround) return kAsStored;
    const Bytes chunk = webp.subspan(at + kAround, length);
    if (text(webp.subspan(at, 4)) == "EXIF") {
      return orientation_of(text(chunk).starts_with(kExif) ? chunk.subspan(kExif.size()) : chunk);
    }
    at += kAround + length + length % 2;
  }
  return kAsStored;
}

}  // namespace

int exif_orientation(Bytes file) {
  if (text(file).starts_with("\xff\xd8")) return of_jpeg(file);
  if (text(file).starts_with("\x89PNG")) return of_png(file);
  if (text(file).starts_with("RIFF") &&
      text(file.subspan(std::min<size_t>(8, file.size()))).starts_with("WEBP")) {
    return of_webp(file);
  }
  return kAsStored;
}

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool turned = orientation >= 5;  // width and height exchanged
  const int w = image.width, h = image.height;
  Image result(turned ? h : w, turned ? w : h);
  for (int y = 0; y < result.height; ++y) {
    for (int x = 0; x < result.width; ++x) {
      // The place of this pixel in the stored image, by the definition of the eight orientations.
      int from_x = turned ? y : x, from_y = turned ? x : y;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        from_x = w - 1 - from_x;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        from_y = h - 1 - from_y;
      std::memcpy(result.at(x, y), image.at(from_x, from_y), 3);
    }
  }
  return result;
}

}  // namespace dtrain::formats
