#include "text/unicode.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace dtrain {
namespace {

constexpr const char* kComposed = "caf\xc3\xa9";     // é
constexpr const char* kDecomposed = "cafe\xcc\x81";  // e and U+0301

TEST(Unicode, ComposesCanonically) {
  EXPECT_EQ(nfc("cat"), "cat");
  EXPECT_EQ(nfc(""), "");
  EXPECT_EQ(nfc(kDecomposed), kComposed);
  EXPECT_EQ(nfc(kComposed), kComposed);
  EXPECT_EQ(nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"),
            "\xed\x95\x9c");                                      // Hangul, three letters to one
  EXPECT_EQ(nfc("a\xcc\xa3\xcc\x82"), nfc("a\xcc\x82\xcc\xa3"));  // two marks in any order
  EXPECT_EQ(nfc("\xe2\x84\xab"), "\xc3\x85");  // the sign of the unit is the letter Å
  // A ligature is another name: only NFKC takes it apart
  EXPECT_EQ(nfc("\xef\xac\x81"), "\xef\xac\x81");
  EXPECT_EQ(nfc("caf\xe9\xcc"), "caf\xe9\xcc");  // not UTF-8
}

TEST(Unicode, FindsANameByItsBytesFirst) {
  const std::vector<std::string> names{"dog", kDecomposed, kComposed};
  EXPECT_EQ(find_name(kComposed, names), 2u);
  EXPECT_EQ(find_name(kDecomposed, names), 1u);
  EXPECT_EQ(find_name(kComposed, std::vector<std::string>{"dog", kDecomposed}), 1u);
  EXPECT_EQ(find_name("cafe", names), 3u);
  EXPECT_TRUE(same_name(kComposed, kDecomposed));
  EXPECT_FALSE(same_name(kComposed, "cafe"));
}

TEST(Unicode, KnowsNamesThatLookAlike) {
  for (const auto& [a, b] :
       std::vector<std::array<const char*, 2>>{{"cat", "c\xd0\xb0t"},  // Cyrillic а
                                               {"Tit", "\xce\xa4it"},  // Greek Τ
                                               {"big cat",
                                                "big\xc2\xa0"
                                                "cat"},          // a space that is not broken
                                               {"cat", "cat "},  // a space at the end
                                               {"cat",
                                                "c\xe2\x80\x8b"
                                                "at"},  // a space of no width
                                               {"a-b",
                                                "a\xe2\x80\x93"
                                                "b"},  // a dash
                                               {kComposed, kDecomposed}}) {
    EXPECT_TRUE(look_alike(a, b)) << a << " " << b;
    EXPECT_TRUE(look_alike(b, a)) << a << " " << b;
  }
  for (const auto& [a, b] : std::vector<std::array<const char*, 2>>{{"cat", "cat"},
                                                                    {"big cat", "bigcat"},
                                                                    {"cat", "Cat"},
                                                                    {"cat", "car"},
                                                                    {kComposed, "cafe"},
                                                                    {"", "a"}}) {
    EXPECT_FALSE(look_alike(a, b)) << a << " " << b;
  }
}

TEST(Unicode, ShowsCodePoints) {
  EXPECT_EQ(code_points(kDecomposed), "U+0063 U+0061 U+0066 U+0065 U+0301");
  EXPECT_EQ(code_points("\xf0\x9f\x90\x88"), "U+1F408");
  EXPECT_EQ(code_points("a\xff"), "U+0061 (byte 255)");
  EXPECT_EQ(look_alike_among("c\xd0\xb0t", std::vector<std::string>{"dog", "cat"}),
            ". It looks like cat, but is U+0063 U+0430 U+0074 and not U+0063 U+0061 U+0074");
  EXPECT_EQ(look_alike_among("car", std::vector<std::string>{"dog", "cat"}), "");
}

}  // namespace
}  // namespace dtrain
