#include "trace/gzip.h"

#include <zlib.h>

#include <array>
#include <utility>

#include "core/check.h"

namespace dtrain::trace {
namespace {

constexpr int kLevel = 6;
constexpr int kWindowBits = 15 + 16;  // with a gzip header
constexpr int kMemoryLevel = 8;

}  // namespace

struct Gzip::Stream {
  z_stream z{};
};

Gzip::Gzip(std::function<void(std::string_view)> write)
    : write_(std::move(write)), stream_(std::make_unique<Stream>()) {
  const int code =
      deflateInit2(&stream_->z, kLevel, Z_DEFLATED, kWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY);
  DTRAIN_CHECK(code == Z_OK, "deflateInit2: ", code);
}

Gzip::~Gzip() { deflateEnd(&stream_->z); }
void Gzip::add(std::string_view text) { deflate(text, /*last=*/false); }
void Gzip::finish() { deflate({}, /*last=*/true); }

void Gzip::deflate(std::string_view text, bool last) {
  constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits
  for (; text.size() > kPiece; text.remove_prefix(kPiece)) deflate(text.substr(0, kPiece), false);
  std::array<char, 1 << 16> out{};
  z_stream& z = stream_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  do {
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    const int code = ::deflate(&z, last ? Z_FINISH : Z_NO_FLUSH);
    DTRAIN_CHECK(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, "deflate: ", code);
    if (const size_t count = out.size() - z.avail_out; count > 0) write_({out.data(), count});
  } while (z.avail_out == 0);
}

}  // namespace dtrain::trace
