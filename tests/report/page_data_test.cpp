// Nothing that others named can become a part of the page.

#include "report/page_parts.h"

#include <gtest/gtest.h>

namespace dtrain::report {
namespace {

TEST(ScriptJson, CannotEndItsElement) {
  EXPECT_EQ(script_json(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script\u003e\u003c!--"})");
  EXPECT_EQ(script_json("\"\u2028\u2029\""), "\"\\u2028\\u2029\"");
  EXPECT_EQ(script_json("\"&\""), "\"\\u0026\"");
  EXPECT_EQ(script_json("\"\u2030 \xe2\""), "\"\u2030 \xe2\"")
      << "a part of a character is left alone";
}

TEST(DataUri, IsBase64) {
  const auto uri = [](std::string_view text) {
    return data_uri("image/jpeg", std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(uri(""), "data:image/jpeg;base64,");
  EXPECT_EQ(uri("f"), "data:image/jpeg;base64,Zg==");
  EXPECT_EQ(uri("foo"), "data:image/jpeg;base64,Zm9v");
  EXPECT_EQ(uri("foobar+"), "data:image/jpeg;base64,Zm9vYmFyKw==");
}

}  // namespace
}  // namespace dtrain::report
