#include "text/printable.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(Printable, TextOfAnyLanguageStays) {
  for (const char* text :
       {"", "a b/c.png", "Grün", "日本語", "🦊", "C:\\new \"x\" 'y'", "\u00a0", "\U0010ffff"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(printable(std::string_view("\0\a\x7f", 3)), "\\x00\\x07\\x7f");
  // The start of an escape sequence as one character
  EXPECT_EQ(printable("\u009b31m"), "\\xc2\\x9b31m");
}

TEST(Printable, ControlsOfTheDirectionOfTextAreEscaped) {
  for (const auto& [text, escaped] : std::initializer_list<std::pair<const char*, const char*>>{
           {"a\u202egnp.exe", "a\\u202egnp.exe"},  // a terminal shows "aexe.png"
           {"\u061c\u200e\u200f", "\\u061c\\u200e\\u200f"},
           {"\u202a\u202b\u202c\u202d", "\\u202a\\u202b\\u202c\\u202d"},
           {"\u2066\u2067\u2068\u2069", "\\u2066\\u2067\\u2068\\u2069"},
           {"\u2028\u2029", "\\u2028\\u2029"},
           // Their neighbors, and what joins letters or the parts of an emoji, stay.
           {"\u200c\u200d\u2010\u2027\u202f\u2065\u206a\u061b\u061d",
            "\u200c\u200d\u2010\u2027\u202f\u2065\u206a\u061b\u061d"},
           {"שלום עליכם", "שלום עליכם"},
       }) {
    EXPECT_EQ(printable(text), escaped);
    EXPECT_EQ(printable_message(text), escaped);
  }
}

TEST(Printable, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");     // Latin-1
  EXPECT_EQ(printable("\xe6\x97"), "\\xe6\\x97");  // truncated
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");  // a line break in an overlong form
  EXPECT_EQ(printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, SomeCanBeKept) { EXPECT_EQ(printable("a\n\tb\x1b", "\n\t"), "a\n\tb\\x1b"); }

TEST(PrintableMessage, OnlyIndentedLinesGoOn) {
  EXPECT_EQ(printable_message("2 problems:\n  a\n\t\n    b"), "2 problems:\n  a\\n\t\n    b");
  EXPECT_EQ(printable_message("no such file: a\nerror: b\x1b[2J"),
            "no such file: a\\nerror: b\\x1b[2J");
  EXPECT_EQ(printable_message("a\n"), "a\\n");
}

}  // namespace
}  // namespace dtrain
