#include "text/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dtrain {
namespace {

TEST(NumberText, ShortestIsReadBackToTheSameBits) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(0.1f), "0.1");
  EXPECT_EQ(shortest(int64_t{-12}), "-12");
  for (const double value :
       {0.1, 1.0 / 3, -2.5e-300, 1e22, std::numeric_limits<double>::denorm_min(), -0.0}) {
    const std::optional<double> back = parse_number<double>(shortest(value));
    ASSERT_TRUE(back.has_value()) << value;
    EXPECT_EQ(*back, value);
    EXPECT_EQ(std::signbit(*back), std::signbit(value));
  }
  EXPECT_EQ(parse_number<int64_t>("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), std::numeric_limits<uint64_t>::max());
}

TEST(NumberText, OnlyTheWholeTextIsANumber) {
  for (const char* text :
       {"", " 1", "1 ", "+1", "1x", "x", "0x1", "1,5", "9223372036854775808", "1.0"}) {
    EXPECT_EQ(parse_number<int64_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<uint64_t>("-1"), std::nullopt);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5x", "0x1p3", "1,5", "1e999"}) {
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<int64_t>(std::string_view("1\0", 2)), std::nullopt);
}

TEST(NumberText, RangesAreSorted) {
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges(std::vector{7}), "7");
  EXPECT_EQ(ranges(std::vector{4, 0, 1, 2}), "0-2,4");
}

TEST(NumberText, HexOfAWordHas16Digits) {
  EXPECT_EQ(hex(uint64_t{0}), "0000000000000000");
  EXPECT_EQ(hex(uint64_t{0xfedcba9876543210}), "fedcba9876543210");
  EXPECT_EQ(parse_hex("fedcba9876543210"), 0xfedcba9876543210);
  EXPECT_EQ(parse_hex("FF"), 255u);
  for (const char* text :
       {"", "0x1", "-1", " 1", "1 ", "g", "00000000000000001", "fffffffffffffffff"}) {
    EXPECT_EQ(parse_hex(text), std::nullopt) << text;
  }
}

TEST(NumberText, HexOfBytesHasTwoDigitsEach) {
  const std::string_view bytes("\x00\x7f\xff", 3);
  EXPECT_EQ(hex(std::as_bytes(std::span(bytes))), "007fff");
}

}  // namespace
}  // namespace dtrain
