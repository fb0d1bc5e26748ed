// Uses libjpeg rather than TurboJPEG, which reports only the first warning of an image: a harmless
// first warning would hide that the rest of the image is missing.

#include "formats/image.h"

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <jpeglib.h>  // requires <cstdio> before it

#include <jerror.h>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

constexpr int kMostScans = 500;  // a progressive file with thousands of scans would take minutes

// Whether no pixel is lost or wrong after a warning, because decoding does not use what it is
// about. All other warnings are about cut or corrupt data, and libjpeg then makes up pixels.
bool harmless(int warning) {
  switch (warning) {
    case JWRN_ADOBE_XFORM:      // an unknown color transform: YCbCr, or YCCK with four components
    case JWRN_EXTRANEOUS_DATA:  // stray bytes between segments
    case JWRN_JFIF_MAJOR:       // a version of JFIF other than 1
    case JWRN_NOT_SEQUENTIAL:   // spectral selection or bit positions in a sequential scan
      return true;
    default:
      return false;
  }
}

// Wraps libjpeg. Its C code calls the callbacks, through which no exception may pass: they store a
// reason and longjmp.
class JpegReader {
 public:
  explicit JpegReader(std::span<const std::byte> bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = [](j_common_ptr jpeg) { self(jpeg).give_up(); };
    errors_.emit_message = [](j_common_ptr jpeg, int level) {
      const bool warning = level < 0;
      if (warning && !harmless(jpeg->err->msg_code)) self(jpeg).give_up();
    };
    progress_.progress_monitor = [](j_common_ptr jpeg) {
      if (self(jpeg).jpeg_.input_scan_number > kMostScans) self(jpeg).give_up("too many scans");
    };
    guarded([&] {
      jpeg_create_decompress(&jpeg_);
      jpeg_.progress = &progress_;
      jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&jpeg_, TRUE);
    });
    jpeg_.out_color_space = inks() ? JCS_CMYK : JCS_EXT_RGB;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  int width() const { return static_cast<int>(jpeg_.image_width); }
  int height() const { return static_cast<int>(jpeg_.image_height); }
  bool inks() const {
    return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
  }

  // Reads all rows from top to bottom, as RGB or CMYK. Requires: `pixels` has the size of
  // the image.
  void read(std::vector<uint8_t>& pixels) {
    const size_t row_bytes = static_cast<size_t>(width()) * (inks() ? 4 : 3);
    guarded([&] {
      jpeg_start_decompress(&jpeg_);
      while (jpeg_.output_scanline < jpeg_.output_height) {
        JSAMPROW row = pixels.data() + jpeg_.output_scanline * row_bytes;
        jpeg_read_scanlines(&jpeg_, &row, 1);
      }
      jpeg_finish_decompress(&jpeg_);
    });
  }

 private:
  static JpegReader& self(j_common_ptr jpeg) {
    return *static_cast<JpegReader*>(jpeg->client_data);
  }

  // Requires: `calls` owns nothing, because a longjmp skips destructors.
  template <typename Calls>
  void guarded(const Calls& calls) {
    if (setjmp(back_) != 0) throw DataError(str("damaged JPEG: ", reason_));
    calls();
  }

  [[noreturn]] void give_up() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&jpeg_), reason_);
    std::longjmp(back_, 1);
  }
  [[noreturn]] void give_up(const char* reason) {
    std::snprintf(reason_, sizeof reason_, "%s", reason);
    std::longjmp(back_, 1);
  }

  struct Decompress : jpeg_decompress_struct {
    ~Decompress() { jpeg_destroy_decompress(this); }
  };
  Decompress jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_;
  char reason_[JMSG_LENGTH_MAX] = "";
};

// Converts CMYK to RGB as PIL and browsers do: without a color profile, and assuming inverted
// values (255: no ink), which is how Adobe's programs, the usual source of CMYK, write them.
Image from_inverted_cmyk(const std::vector<uint8_t>& inks, int width, int height) {
  Image image(width, height);
  for (size_t i = 0; i < image.rgb.size() / 3; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      image.rgb[i * 3 + c] = static_cast<uint8_t>((inks[i * 4 + c] * inks[i * 4 + 3] + 127) / 255);
    }
  }
  return image;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes) {
  JpegReader reader(bytes);
  check_size(reader.width(), reader.height());
  if (reader.inks()) {
    std::vector<uint8_t> inks(static_cast<size_t>(reader.width()) *
                              static_cast<size_t>(reader.height()) * 4);
    reader.read(inks);
    return from_inverted_cmyk(inks, reader.width(), reader.height());
  }
  Image image(reader.width(), reader.height());
  reader.read(image.rgb);
  return image;
}

}  // namespace dtrain::formats
