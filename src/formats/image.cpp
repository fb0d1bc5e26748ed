#include "formats/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/strings.h"
#include "formats/read_file.h"

namespace dtrain::formats {
namespace {

constexpr int kLargestSide = 32768;                // a header with a larger side is damaged
constexpr int64_t kMostPixels = int64_t{1} << 28;  // 768 MiB as RGB; a small file must not use up all memory

struct TurboDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Turbo = std::unique_ptr<void, TurboDeleter>;

struct PngImage : png_image {  // libpng's simplified interface, freed on every path
  PngImage() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

Image decode_png(std::span<const std::byte> bytes, uint8_t behind) {
  PngImage png;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) {
    throw DataError(str("damaged PNG: ", png.message));
  }
  check_size(static_cast<int>(png.width), static_cast<int>(png.height));
  png.format = PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit files without a gamma value are as bright as 8-bit ones
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  const png_color background{behind, behind, behind};
  if (!png_image_finish_read(&png, &background, image.rgb.data(), 0, nullptr)) {
    throw DataError(str("damaged PNG: ", png.message));
  }
  return image;
}

}  // namespace

void check_size(int width, int height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide) {
    throw DataError(str("damaged header: an image of ", width, "x", height, " pixels; sides of 1 to ", kLargestSide,
                        " can be read"));
  }
  if (int64_t{width} * height > kMostPixels) {
    throw DataError(str("an image of ", width, "x", height, " pixels; at most ", kMostPixels, " can be read"));
  }
}

Image decode_image(std::span<const std::byte> bytes, uint8_t behind) {
  static constexpr unsigned char kJpeg[] = {0xff, 0xd8, 0xff};
  static constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
  if (bytes.empty()) throw DataError("the file is empty");
  if (bytes.size() >= sizeof kJpeg && std::memcmp(bytes.data(), kJpeg, sizeof kJpeg) == 0) return decode_jpeg(bytes);
  if (bytes.size() >= sizeof kPng && std::memcmp(bytes.data(), kPng, sizeof kPng) == 0)
    return decode_png(bytes, behind);
  throw DataError("neither a JPEG nor a PNG, judged by its first bytes");
}

Image read_image(const std::filesystem::path& file) { return decode_image(read_file(file)); }

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  const Turbo turbo(tjInitCompress());
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  const int failed = tjCompress2(turbo.get(), image.rgb.data(), image.width, 0, image.height, TJPF_RGB, &buffer, &size,
                                 TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(buffer, tjFree);
  if (failed) throw Error(str("JPEG encoder: ", tjGetErrorStr2(turbo.get())));
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  return {begin, begin + size};
}

std::vector<std::byte> encode_png(const Image& image) {
  PngImage png;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png.flags = PNG_IMAGE_FLAG_FAST;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<std::byte> bytes(size);
  if (!png_image_write_to_memory(&png, bytes.data(), &size, 0, image.rgb.data(), 0, nullptr)) {
    throw Error(str("PNG encoder: ", png.message));
  }
  bytes.resize(size);
  return bytes;
}

Image mirrored(const Image& image) {
  Image result(image.width, image.height);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) std::memcpy(result.at(image.width - 1 - x, y), image.at(x, y), 3);
  }
  return result;
}

}  // namespace dtrain::formats
