#include <webp/decode.h>

#include <utility>

#include "core/error.h"
#include "formats/image.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

std::string reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "it does not fit into memory";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "its data is not valid";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses a feature that libwebp does not know";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "premature end of the file";
    default:
      return str("libwebp's status ", static_cast<int>(status));
  }
}

void check(VP8StatusCode status) {
  if (status != VP8_STATUS_OK) throw DataError(str("damaged WebP: ", reason_of(status)));
}

}  // namespace

Image decode_webp(std::span<const std::byte> bytes, uint8_t behind) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    throw Error("libwebp has another version than its header");
  check(WebPGetFeatures(data, bytes.size(), &config.input));
  if (config.input.has_animation != 0)
    throw DataError("an animated WebP; only still pictures can be read");
  const int width = config.input.width, height = config.input.height;
  check_size(width, height);
  const bool transparent = config.input.has_alpha != 0;
  const int row_bytes = width * (transparent ? 4 : 3);
  std::vector<uint8_t> pixels(static_cast<size_t>(row_bytes) * static_cast<size_t>(height));
  config.output.colorspace = transparent ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = pixels.data(), .stride = row_bytes, .size = pixels.size()};
  check(WebPDecode(data, bytes.size(), &config));
  if (transparent) return over(behind, pixels, width, height);
  Image image;
  image.width = width, image.height = height;
  image.rgb = std::move(pixels);
  return image;
}

}  // namespace dtrain::formats
