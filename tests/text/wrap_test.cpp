#include "text/wrap.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(Wrap, BreaksAtBlanksAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrap("one two three", 80), "one two three");
  EXPECT_EQ(wrap("", 5), "");
}

TEST(Wrap, KeepsLineEndsAndLongWordsWhole) {
  EXPECT_EQ(wrap("a\n\nb", 5, 1), "a\n \n b");
  EXPECT_EQ(wrap("of incomprehensibilities", 5), "of\nincomprehensibilities");
}

TEST(Wrap, CountsCharactersNotBytes) { EXPECT_EQ(wrap("größer ÷ ×", 10), "größer ÷ ×"); }

TEST(HelpEntry, PutsTheTextInItsColumn) {
  EXPECT_EQ(help_entry("--lr", "the rate", 10), "  --lr    the rate\n");
  EXPECT_EQ(help_entry("--learning", "the rate", 10), "  --learning\n          the rate\n");
  const std::string word = "forty-characters-are-in-this-single-word";
  EXPECT_EQ(help_entry("--lr", word + " " + word, 10),
            "  --lr    " + word + "\n          " + word + "\n");
}

}  // namespace
}  // namespace dtrain
