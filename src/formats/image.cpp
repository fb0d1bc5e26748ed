#include "formats/image.h"

#include <turbojpeg.h>

#include <cstring>
#include <memory>

#include "core/check.h"
#include "core/error.h"
#include "formats/read_file.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

constexpr int kLargestSide = 32768;  // a header with a larger side is damaged
constexpr int64_t kMostPixels = int64_t{1}
                                << 28;  // 768 MiB as RGB; a small file must not use up all memory

struct TurboDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Turbo = std::unique_ptr<void, TurboDeleter>;

}  // namespace

void check_size(int width, int height) {
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide) {
    throw DataError(str("damaged header: an image of ", width, "x", height,
                        " pixels; sides of 1 to ", kLargestSide, " can be read"));
  }
  if (int64_t{width} * height > kMostPixels) {
    throw DataError(
        str("an image of ", width, "x", height, " pixels; at most ", kMostPixels, " can be read"));
  }
}

Image decode_image(std::span<const std::byte> bytes, uint8_t behind) {
  static constexpr unsigned char kJpeg[] = {0xff, 0xd8, 0xff};
  static constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
  if (bytes.empty()) throw DataError("the file is empty");
  if (bytes.size() >= sizeof kJpeg && std::memcmp(bytes.data(), kJpeg, sizeof kJpeg) == 0)
    return decode_jpeg(bytes);
  if (bytes.size() >= sizeof kPng && std::memcmp(bytes.data(), kPng, sizeof kPng) == 0)
    return decode_png(bytes, behind);
  if (bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
      std::memcmp(&bytes[8], "WEBP", 4) == 0)
    return decode_webp(bytes, behind);
  throw DataError("not a JPEG, PNG or WebP, judged by its first bytes");
}

Image over(uint8_t behind, std::span<const uint8_t> rgba, int width, int height) {
  Image image(width, height);
  DTRAIN_CHECK(rgba.size() / 4 == image.rgb.size() / 3, rgba.size(), " bytes for ", width, "x",
               height);
  for (size_t i = 0; i < rgba.size() / 4; ++i) {
    const int alpha = rgba[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      image.rgb[3 * i + c] =
          static_cast<uint8_t>((rgba[4 * i + c] * alpha + behind * (255 - alpha) + 127) / 255);
    }
  }
  return image;
}

Image read_image(const std::filesystem::path& file) { return decode_image(read_file(file)); }

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  const Turbo turbo(tjInitCompress());
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  const int failed = tjCompress2(turbo.get(), image.rgb.data(), image.width, 0, image.height,
                                 TJPF_RGB, &buffer, &size, TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(buffer, tjFree);
  if (failed) throw Error(str("JPEG encoder: ", tjGetErrorStr2(turbo.get())));
  const auto* begin = reinterpret_cast<const std::byte*>(buffer);
  return {begin, begin + size};
}

Image mirrored(const Image& image) {
  Image result(image.width, image.height);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x)
      std::memcpy(result.at(image.width - 1 - x, y), image.at(x, y), 3);
  }
  return result;
}

}  // namespace dtrain::formats
