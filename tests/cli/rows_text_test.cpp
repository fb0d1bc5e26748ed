#include "cli/rows_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace dtrain::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Csv, QuotesWhatRfc4180Names) {
  const RowWriter writer(RowFormat::kCsv, {"yaw", "a \"b\", c"});
  EXPECT_EQ(writer.header(), "input,yaw,\"a \"\"b\"\", c\",error\n");
  EXPECT_EQ(writer.row("a,b.jpg", {1.5, std::string("plain")}), "\"a,b.jpg\",1.5,plain,\n");
  EXPECT_EQ(writer.row("say \"hi\".jpg", {1.5, std::string()}), "\"say \"\"hi\"\".jpg\",1.5,,\n");
  EXPECT_EQ(writer.row("two\nlines", {1.5, std::string("x\ry")}), "\"two\nlines\",1.5,\"x\ry\",\n");
  EXPECT_EQ(writer.row("Zoë 猫.jpg", {1.5, std::string("é")}), "Zoë 猫.jpg,1.5,é,\n");
  EXPECT_EQ(writer.row("bytes\xff", {1.5, std::string()}), "bytes\xff,1.5,,\n");
}

TEST(Csv, ListsAreElementsWithBlanks) {
  const RowWriter writer(RowFormat::kCsv, {"order", "shares"});
  EXPECT_EQ(writer.row("s", {std::vector<int64_t>{2, 0, 1}, std::vector<double>{0.5, kNan}}),
            "s,2 0 1,0.5 nan,\n");
  EXPECT_EQ(writer.row("s", {std::vector<int64_t>{}, std::vector<double>{}}), "s,,,\n");
}

TEST(Csv, ListsOfTextAreElementsWithSemicolons) {
  const RowWriter writer(RowFormat::kCsv, {"names"});
  const std::vector<std::string> names{"great cat", "a;b", "c\\", "d,e"};
  EXPECT_EQ(writer.row("s", {names}), "s,\"great cat;a\\;b;c\\\\;d,e\",\n");
  EXPECT_EQ(writer.row("s", {std::vector<std::string>{"a", "b"}}), "s,a;b,\n");
  const RowWriter lines(RowFormat::kJsonLines, {"names"});
  EXPECT_EQ(nlohmann::json::parse(lines.row("s", {names}))["names"], names);
}

TEST(Csv, AnErrorHasItsOwnColumn) {
  const RowWriter writer(RowFormat::kCsv, {"a", "b"});
  EXPECT_EQ(writer.error("x.jpg", "x.jpg: cut off, \"really\""),
            "x.jpg,,,\"x.jpg: cut off, \"\"really\"\"\"\n");
}

TEST(JsonLines, EachLineIsAnObject) {
  const RowWriter writer(RowFormat::kJsonLines, {"class", "order", "p"});
  EXPECT_EQ(writer.header(), "");
  const std::string line =
      writer.row("a,\"b\"\n猫", {std::string("x\ty"), std::vector<int64_t>{1, 0}, kNan});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["input"], "a,\"b\"\n猫");
  EXPECT_EQ(json["class"], "x\ty");
  EXPECT_EQ(json["order"], (std::vector<int>{1, 0}));
  EXPECT_TRUE(json["p"].is_null());
  EXPECT_FALSE(json.contains("error"));
  EXPECT_EQ(nlohmann::json::parse(writer.error("f", "bad")),
            (nlohmann::json{{"input", "f"}, {"error", "bad"}}));
}

TEST(JsonLines, WhatIsNoNumberIsNull) {
  const RowWriter writer(RowFormat::kJsonLines, {"yaw", "shares"});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double value : {kNan, -kNan, kInf, -kInf}) {
    const auto json =
        nlohmann::json::parse(writer.row("i", {value, std::vector<double>{0.5, value}}));
    EXPECT_TRUE(json["yaw"].is_null());
    EXPECT_EQ(json["shares"], (nlohmann::json{0.5, nullptr}));
  }
}

TEST(JsonLines, BytesThatAreNoTextBecomeReplacementCharacters) {
  const RowWriter writer(RowFormat::kJsonLines, {});
  EXPECT_EQ(nlohmann::json::parse(writer.row("a\xff", {}))["input"], "a\uFFFD");
}

TEST(Numbers, AreTheShortestThatComeBack) {
  const RowWriter writer(RowFormat::kCsv, {"x"});
  const auto text = [&](double value) {
    const std::string line = writer.row("i", {value});
    return line.substr(2, line.size() - 4);
  };
  EXPECT_EQ(text(0.1f), "0.1");  // was a float32
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(12.345600128173828), "12.3456");
  EXPECT_EQ(text(-0.0), "-0");
  EXPECT_EQ(std::stod(text(1.0 / 3)), 1.0 / 3);
  EXPECT_EQ(std::stof(text(1.0f / 3)), 1.0f / 3);
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(text(-kNan), "nan");  // 0 / 0 gives it so
  EXPECT_EQ(writer.row("i", {int64_t{-9007199254740993}}), "i,-9007199254740993,\n");
}

}  // namespace
}  // namespace dtrain::cli
