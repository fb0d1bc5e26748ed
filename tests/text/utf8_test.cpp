#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace dtrain {
namespace {

TEST(Utf8, KnowsItsCharacters) {
  EXPECT_EQ(utf8_character(""), 0u);
  EXPECT_EQ(utf8_character("a\xff"), 1u);
  EXPECT_EQ(utf8_character(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(utf8_character("ü"), 2u);
  EXPECT_EQ(utf8_character("日本"), 3u);
  EXPECT_EQ(utf8_character("🦊"), 4u);
  for (const char* last : {"\u007f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff",
                           "\U00010000", "\U0010ffff"}) {
    EXPECT_EQ(find_not_utf8(last), std::string_view::npos) << last;
  }
}

TEST(Utf8, FindsWhatIsNone) {
  for (const char* bad : {"\x80", "\xff", "\xfe", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xe2\x82", "\xe2\x82 ", "\xc3"}) {
    EXPECT_EQ(utf8_character(bad), 0u) << bad;
    EXPECT_EQ(find_not_utf8("ü" + std::string(bad) + "a"), 2u) << bad;
    EXPECT_FALSE(is_utf8(bad));
  }
  EXPECT_TRUE(is_utf8("größer ÷ ×"));
  EXPECT_TRUE(is_utf8(""));
}

TEST(Utf8, WritesEveryCodePoint) {
  EXPECT_EQ(utf8_of('a'), "a");
  EXPECT_EQ(utf8_of(0), std::string(1, '\0'));
  EXPECT_EQ(utf8_of(0xfc), "ü");
  EXPECT_EQ(utf8_of(0x65e5), "日");
  EXPECT_EQ(utf8_of(0x1f98a), "🦊");
  for (uint32_t point = 0; point < 0x120000; ++point) {
    const bool character = point < 0x110000 && (point < 0xd800 || point >= 0xe000);
    const std::string text = utf8_of(point);
    ASSERT_EQ(utf8_character(text), character ? text.size() : 0) << point;
  }
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(utf8_beginning("größer", 6), "größ");
  EXPECT_EQ(utf8_beginning("größer", 3), "gr");
  EXPECT_EQ(utf8_beginning("größer", 4), "grö");
  EXPECT_EQ(utf8_beginning("größer", 8), "größer");
  EXPECT_EQ(utf8_beginning("größer", 100), "größer");
  for (size_t most = 0; most < 4; ++most) EXPECT_EQ(utf8_beginning("🦊", most), "") << most;
  EXPECT_EQ(utf8_beginning(std::string(9, '\x80'), 6).size(), 3u)
      << "not UTF-8: still almost as long";
}

TEST(Utf8, CountsCharactersNotBytes) {
  EXPECT_EQ(count_characters(""), 0u);
  EXPECT_EQ(count_characters("größer 🦊"), 8u);
}

}  // namespace
}  // namespace dtrain
