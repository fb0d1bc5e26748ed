// Reads and writes PNG. Reading uses libpng's low-level interface, because the simplified one
// always applies the gamma value of a file.

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "core/check.h"
#include "core/error.h"
#include "formats/image.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

// Wraps libpng. Its C code calls the callbacks, through which no exception may pass: they store a
// reason and longjmp.
class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> bytes) : rest_(bytes) {
    guarded([&] {
      png_.file = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, give_up, ignore_warning);
      if (png_.file) png_.header = png_create_info_struct(png_.file);
      if (!png_.header) give_up("it does not fit into memory");
      png_set_read_fn(png_.file, this, read_bytes);
      // Leaves all chunks unread but those with pixels, palette and transparency (tRNS). The others
      // would change colors (gAMA, iCCP, sRGB, cHRM, sBIT), or be no part of the picture.
      png_set_keep_unknown_chunks(png_.file, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_.file, png_.header);
    });
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  int width() const { return static_cast<int>(png_get_image_width(png_.file, png_.header)); }
  int height() const { return static_cast<int>(png_get_image_height(png_.file, png_.header)); }
  bool transparent() const {
    return (png_get_color_type(png_.file, png_.header) & PNG_COLOR_MASK_ALPHA) != 0 ||
           png_get_valid(png_.file, png_.header, PNG_INFO_tRNS) != 0;
  }

  // All rows from top to bottom: RGBA if transparent(), else RGB.
  std::vector<uint8_t> read() {
    const size_t row_bytes = static_cast<size_t>(width()) * (transparent() ? 4 : 3);
    std::vector<uint8_t> pixels(row_bytes * static_cast<size_t>(height()));
    std::vector<png_bytep> rows;
    for (size_t at = 0; at < pixels.size(); at += row_bytes) rows.push_back(pixels.data() + at);
    guarded([&] {
      png_set_expand(png_.file);       // palettes, fewer than 8 bits, and tRNS as alpha
      png_set_scale_16(png_.file);     // to the nearest of 8 bits
      png_set_gray_to_rgb(png_.file);  // also gray with alpha
      png_set_interlace_handling(png_.file);
      png_read_update_info(png_.file, png_.header);
      if (png_get_rowbytes(png_.file, png_.header) != row_bytes)
        give_up("its rows have another size");
      png_read_image(png_.file, rows.data());
    });
    return pixels;
  }

 private:
  // Requires: `calls` owns nothing, because a longjmp skips destructors.
  template <typename Calls>
  void guarded(const Calls& calls) {
    if (setjmp(back_) != 0) throw DataError(str("damaged PNG: ", reason_));
    calls();
  }

  [[noreturn]] void give_up(const char* reason) {
    std::snprintf(reason_, sizeof reason_, "%s", reason);
    std::longjmp(back_, 1);
  }
  [[noreturn]] static void give_up(png_structp png, png_const_charp reason) {
    static_cast<PngReader*>(png_get_error_ptr(png))->give_up(reason);
  }
  static void ignore_warning(png_structp, png_const_charp) {}
  static void read_bytes(png_structp png, png_bytep out, size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.rest_.size()) reader.give_up("premature end of the file");
    std::memcpy(out, reader.rest_.data(), count);
    reader.rest_ = reader.rest_.subspan(count);
  }

  struct Handles {
    png_structp file = nullptr;
    png_infop header = nullptr;
    ~Handles() { png_destroy_read_struct(&file, &header, nullptr); }
  };
  std::span<const std::byte> rest_;
  Handles png_;
  std::jmp_buf back_;
  char reason_[200] = "";
};

struct PngImage : png_image {  // libpng's simplified interface, freed on every path
  PngImage() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

}  // namespace

Image decode_png(std::span<const std::byte> bytes, uint8_t behind) {
  PngReader reader(bytes);
  const int width = reader.width(), height = reader.height();
  check_size(width, height);
  if (reader.transparent()) return over(behind, reader.read(), width, height);
  Image image;
  image.width = width, image.height = height;
  image.rgb = reader.read();
  return image;
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

}  // namespace dtrain::formats
