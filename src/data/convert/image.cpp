#include "data/convert/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "data/convert/read_file.h"

namespace dtrain::data {
namespace {

constexpr int kLargestSide = 32768;                // a header that claims more is damage, not a photo
constexpr int64_t kMostPixels = int64_t{1} << 28;  // 768 MiB as RGB: a small file must not take all memory

struct TurboDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Turbo = std::unique_ptr<void, TurboDeleter>;

void check_size(int width, int height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide) {
    throw DataError(str("damaged header: a picture of ", width, "x", height, " pixels; sides of 1 to ", kLargestSide,
                        " can be read"));
  }
  if (int64_t{width} * height > kMostPixels) {
    throw DataError(str("a picture of ", width, "x", height, " pixels; at most ", kMostPixels, " can be read"));
  }
}

// Four inks to three lights, as PIL and the browsers do: without a profile, and taking for granted that the inks are
// stored inverted (255: none), as Adobe's programs write them and hardly any other program writes CMYK at all.
Image from_inverted_cmyk(const std::vector<uint8_t>& inks, int width, int height) {
  Image image(width, height);
  for (size_t i = 0; i < image.rgb.size() / 3; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      image.rgb[i * 3 + c] = static_cast<uint8_t>((inks[i * 4 + c] * inks[i * 4 + 3] + 127) / 255);
    }
  }
  return image;
}

Image decode_jpeg(std::span<const std::byte> bytes) {
  const Turbo turbo(tjInitDecompress());
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(turbo.get(), data, bytes.size(), &width, &height, &subsampling, &colours) != 0) {
    throw DataError(str("damaged JPEG: ", tjGetErrorStr2(turbo.get())));
  }
  check_size(width, height);
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * (inks ? 4 : 3));
  // A progressive file of thousands of scans would take minutes for one picture.
  if (tjDecompress2(turbo.get(), data, bytes.size(), pixels.data(), width, 0, height, inks ? TJPF_CMYK : TJPF_RGB,
                    TJFLAG_LIMITSCANS) != 0) {
    // Cameras leave stray bytes between segments; all other warnings mean that pixels are missing or wrong.
    const std::string reason = tjGetErrorStr2(turbo.get());
    const bool harmless =
        tjGetErrorCode(turbo.get()) == TJERR_WARNING && reason.find("extraneous bytes") != std::string::npos;
    if (!harmless) throw DataError("damaged JPEG: " + reason);
  }
  if (inks) return from_inverted_cmyk(pixels, width, height);
  Image image;
  image.width = width;
  image.height = height;
  image.rgb = std::move(pixels);
  return image;
}

struct PngImage : png_image {  // libpng's simplified interface, freed on all paths
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
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit values without a note on gamma are as bright as 8-bit ones
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  const png_color background{behind, behind, behind};
  if (!png_image_finish_read(&png, &background, image.rgb.data(), 0, nullptr)) {
    throw DataError(str("damaged PNG: ", png.message));
  }
  return image;
}

}  // namespace

Image decode_image(std::span<const std::byte> bytes, uint8_t behind) {
  static constexpr unsigned char kJpeg[] = {0xff, 0xd8, 0xff};
  static constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
  if (bytes.empty()) throw DataError("the file is empty");
  if (bytes.size() >= sizeof kJpeg && std::memcmp(bytes.data(), kJpeg, sizeof kJpeg) == 0) return decode_jpeg(bytes);
  if (bytes.size() >= sizeof kPng && std::memcmp(bytes.data(), kPng, sizeof kPng) == 0)
    return decode_png(bytes, behind);
  throw DataError("neither a JPEG nor a PNG, by its first bytes");
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

}  // namespace dtrain::data
