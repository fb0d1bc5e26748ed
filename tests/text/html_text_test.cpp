#include "text/printable.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(HtmlText, EscapesWhatHasAMeaning) {
  EXPECT_EQ(html_text("<script>alert('1')</script>"),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
  EXPECT_EQ(html_text("\" onload=\"x"), "&quot; onload=&quot;x");
  EXPECT_EQ(html_text("a & b"), "a &amp; b");
  EXPECT_EQ(html_text("Bär 日本 🙂"), "Bär 日本 🙂");
}

TEST(HtmlText, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(html_text("a\n\x1b[31m\x7f"), "a\\n\\x1b[31m\\x7f");
  EXPECT_EQ(html_text(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(html_text("\xff\xc0<"), "\\xff\\xc0&lt;");
  EXPECT_EQ(html_text("gnp.\u202egpj"), "gnp.\\u202egpj") << "reverses the text behind it";
}

}  // namespace
}  // namespace dtrain
