#include "convert/stored_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::convert {
namespace {

using testing::expect_error;

TEST(SequenceRows, AOneDimensionalArrayHasOneFeature) {
  EXPECT_EQ(sequence_rows(formats::parse_npy(formats::to_npy(std::vector<float>{1, 2, 3}, {3})), 1)
                .size(),
            3u);
  const auto refused = [](const std::vector<std::byte>& file, const char* part) {
    expect_error<DataError>([&] { sequence_rows(formats::parse_npy(file), 2); }, {part});
  };
  refused(formats::to_npy(std::vector<float>{}, {0, 2}), "length 0");
  refused(formats::to_npy(std::vector<float>{}, {2, 0}), "without features");
  refused(formats::to_npy(std::vector<float>{1}, {}), "[T, F]");
  refused(formats::to_npy(std::vector<float>(8), {2, 2, 2}), "[2, 2, 2]");
  refused(formats::to_npy(std::vector<float>(6), {2, 3}), "has 3 features per row");
  refused(formats::to_npy(std::vector<float>{0, 0, 0, NAN}, {2, 2}), "NaN in row 1, feature 1");
  refused(formats::to_npy(std::vector<float>{0, 0, -INFINITY, 0}, {2, 2}), "infinity");
  // float64; the second value is finite but beyond float32
  std::string file =
      formats::npy_header("<f8", {1, 2}) + std::string("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x7e", 16);
  const auto bytes = std::as_bytes(std::span(file));
  refused({bytes.begin(), bytes.end()}, "beyond float32");
}

}  // namespace
}  // namespace dtrain::convert
