#include "diagnose/document_tables.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain {
namespace {

std::string table(std::string_view name) { return str("| ", name, " |\n"); }

TEST(DocumentTables, AreWrittenAgainAndTheRestStays) {
  const std::string text =
      "before\n<!-- table: a b -->\nold\n<!-- end of table -->\nbetween\n<!-- table: c -->\n"
      "<!-- end of table -->\nafter";
  const std::string made = with_tables(text, table);
  EXPECT_EQ(made,
            "before\n<!-- table: a b -->\n\n| a b |\n\n<!-- end of table -->\nbetween\n"
            "<!-- table: c -->\n\n| c |\n\n<!-- end of table -->\nafter");
  EXPECT_EQ(with_tables(made, table), made);
  EXPECT_EQ(with_tables("no table", table), "no table");
}

TEST(DocumentTables, WithoutAnEndAreADataError) {
  for (const char* text : {"<!-- table: a -->\n", "<!-- table: a\n<!-- end of table -->",
                           "<!-- table: a -->\n<!-- end"})
    EXPECT_THROW(with_tables(text, table), DataError) << text;
}

}  // namespace
}  // namespace dtrain
