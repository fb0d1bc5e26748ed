#include "trace/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace dtrain::trace {
namespace {

std::string unzipped(std::string bytes, size_t expected) {
  std::string text(expected + 1, '\0');
  z_stream z{};
  EXPECT_EQ(inflateInit2(&z, 15 + 16), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(text.data());
  z.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END) << "with a checksum and an end";
  EXPECT_EQ(z.avail_in, 0u);
  text.resize(z.total_out);
  inflateEnd(&z);
  return text;
}

TEST(Gzip, GivesTheTextBack) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i * 7919 % 1000) + ",";
  std::string bytes;
  Gzip gzip([&](std::string_view piece) { bytes += piece; });
  for (size_t at = 0; at < text.size(); at += 1000)
    gzip.add(std::string_view(text).substr(at, 1000));
  gzip.finish();
  EXPECT_LT(bytes.size(), text.size() / 2);
  EXPECT_EQ(unzipped(bytes, text.size()), text);
}

TEST(Gzip, OfNothingIsAnEmptyFile) {
  std::string bytes;
  Gzip gzip([&](std::string_view piece) { bytes += piece; });
  gzip.finish();
  EXPECT_EQ(unzipped(bytes, 0), "");
}

}  // namespace
}  // namespace dtrain::trace
