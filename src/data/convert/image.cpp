#include "data/convert/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::data {
namespace {

constexpr int kLargestSide = 32768;  // a header that claims more is damage, not a photo

struct TurboDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Turbo = std::unique_ptr<void, TurboDeleter>;

void check_size(int width, int height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide) {
    throw DataError(str("damaged header: a picture of ", width, "x", height, " pixels; sides of 1 to ", kLargestSide,
                        " can be read"));
  }
}

Image decode_jpeg(std::span<const std::byte> bytes) {
  const Turbo turbo(tjInitDecompress());
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(turbo.get(), data, bytes.size(), &width, &height, &subsampling, &colours) != 0) {
    throw DataError(str("damaged JPEG: ", tjGetErrorStr2(turbo.get())));
  }
  check_size(width, height);
  Image image(width, height);
  if (tjDecompress2(turbo.get(), data, bytes.size(), image.rgb.data(), width, 0, height, TJPF_RGB, 0) != 0) {
    // Cameras leave stray bytes between segments; all other warnings mean that pixels are missing or wrong.
    const std::string reason = tjGetErrorStr2(turbo.get());
    const bool harmless =
        tjGetErrorCode(turbo.get()) == TJERR_WARNING && reason.find("extraneous bytes") != std::string::npos;
    if (!harmless) throw DataError("damaged JPEG: " + reason);
  }
  return image;
}

struct PngImage : png_image {  // libpng's simplified interface, freed on all paths
  PngImage() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

Image decode_png(std::span<const std::byte> bytes) {
  PngImage png;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) {
    throw DataError(str("damaged PNG: ", png.message));
  }
  check_size(static_cast<int>(png.width), static_cast<int>(png.height));
  png.format = PNG_FORMAT_RGB;
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  const png_color black{0, 0, 0};  // behind transparent pixels
  if (!png_image_finish_read(&png, &black, image.rgb.data(), 0, nullptr)) {
    throw DataError(str("damaged PNG: ", png.message));
  }
  return image;
}

}  // namespace

Image decode_image(std::span<const std::byte> bytes) {
  static constexpr unsigned char kJpeg[] = {0xff, 0xd8, 0xff};
  static constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
  if (bytes.empty()) throw DataError("the file is empty");
  if (bytes.size() >= sizeof kJpeg && std::memcmp(bytes.data(), kJpeg, sizeof kJpeg) == 0) return decode_jpeg(bytes);
  if (bytes.size() >= sizeof kPng && std::memcmp(bytes.data(), kPng, sizeof kPng) == 0) return decode_png(bytes);
  throw DataError("neither a JPEG nor a PNG, by its first bytes");
}

Image read_image(const std::filesystem::path& file) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file))
    throw DataError("not a regular file");  // a pipe would block for ever
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) throw DataError(str("cannot be opened: ", std::strerror(errno)));
  std::vector<std::byte> bytes(static_cast<size_t>(in.tellg()));
  in.seekg(0).read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw DataError(str("cannot be read: ", std::strerror(errno)));
  return decode_image(bytes);
}

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
