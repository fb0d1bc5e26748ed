#include "core/hash.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "support/temp_dir.h"

namespace dtrain {
namespace {

TEST(Hash, KnownValues) {
  EXPECT_EQ(xxh64(""), 0xef46db3751d8e999ULL);  // of the xxHash specification
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  const std::string text(1000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  RunningHash running(7);
  for (const size_t piece : {0u, 1u, 31u, 968u}) running.add(bytes.first(piece));
  EXPECT_EQ(running.value(), xxh64(bytes, 7));
  EXPECT_EQ(RunningHash().value(), xxh64(""));
}

TEST(Hash, OfAFileIsThatOfItsBytes) {
  const testing::TempDir folder;
  const std::string text(3'000'000, 'x');
  std::ofstream(folder / "f") << text;
  EXPECT_EQ(sha256_hex_of_file(folder / "f"), sha256_hex(std::as_bytes(std::span(text))));
  EXPECT_THROW(sha256_hex_of_file(folder / "absent"), Error);
}

}  // namespace
}  // namespace dtrain
