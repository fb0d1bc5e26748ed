#include "text/text_table.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(
      text_table({"name", "samples/s"}, {{"a", "12.5"}, {"longer", "1000000.0"}}, {Align::kLeft}),
      "  name    samples/s\n"
      "  a            12.5\n"
      "  longer  1000000.0\n");
}

TEST(TextTable, WidthsAreOfCharactersAndOfEscapes) {
  EXPECT_EQ(text_table({"n", "x"}, {{"Käse", "1"}, {"a\tb", "2"}}, {Align::kLeft}),
            "  n     x\n"
            "  Käse  1\n"
            "  a\\tb  2\n");
}

TEST(TextTable, ACellBeyondTheWidestPushesItsOwnRow) {
  EXPECT_EQ(text_table({"name", "x"}, {{"a", "1"}, {"longer name", "2"}, {"abcdef", "3"}},
                       {Align::kLeft}, 6),
            "  name    x\n"
            "  a       1\n"
            "  longer name  2\n"
            "  abcdef  3\n");
}

TEST(TextTable, AShortRowEndsEarly) {
  EXPECT_EQ(text_table({"a", "b"}, {{"1"}, {}}, {}),
            "  a  b\n"
            "  1\n"
            "\n");
}

TEST(TextTable, ALongRowGoesOnWithoutHeaders) {
  EXPECT_EQ(text_table({"a"}, {{"1", "22"}, {"3", "4"}}),
            "  a\n"
            "  1  22\n"
            "  3   4\n");
}

}  // namespace
}  // namespace dtrain
