// Nothing that others named can become a part of the page.

#include "report/html_text.h"

#include <gtest/gtest.h>

#include "core/utf8.h"

namespace dtrain::report {
namespace {

TEST(HtmlText, EscapesWhatHasAMeaning) {
  EXPECT_EQ(html_text("<script>alert('1')</script>"), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
  EXPECT_EQ(html_text("\" onload=\"x"), "&quot; onload=&quot;x");
  EXPECT_EQ(html_text("a & b"), "a &amp; b");
  EXPECT_EQ(html_text("Bär 日本 🙂"), "Bär 日本 🙂");
}

TEST(HtmlText, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(html_text("a\n\x1b[31m\x7f"), "a\\n\\x1b[31m\\x7f");
  EXPECT_EQ(html_text(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(html_text("\xff\xc0<"), "\\xff\\xc0&lt;");
  EXPECT_EQ(html_text("gnp.\u202egpj"), "gnp.\ufffdgpj") << "reverses the text behind it";
}

TEST(ScriptJson, CannotEndItsElement) {
  EXPECT_EQ(script_json(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script\u003e\u003c!--"})");
  EXPECT_EQ(script_json("\"\u2028\u2029\""), "\"\\u2028\\u2029\"");
  EXPECT_EQ(script_json("\"&\""), "\"\\u0026\"");
  EXPECT_EQ(script_json("\"\u2030 \xe2\""), "\"\u2030 \xe2\"") << "a part of a character is left alone";
}

TEST(DataUri, IsBase64) {
  const auto uri = [](std::string_view text) { return data_uri("image/jpeg", std::as_bytes(std::span(text))); };
  EXPECT_EQ(uri(""), "data:image/jpeg;base64,");
  EXPECT_EQ(uri("f"), "data:image/jpeg;base64,Zg==");
  EXPECT_EQ(uri("foo"), "data:image/jpeg;base64,Zm9v");
  EXPECT_EQ(uri("foobar+"), "data:image/jpeg;base64,Zm9vYmFyKw==");
}

}  // namespace
}  // namespace dtrain::report
