#include "text/strings.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(Nearest, FindsTyposAndNothingElse) {
  const std::vector<std::string> names = {"train.epochs", "train.batch_size", "optimizer.lr",
                                          "optimizer.weight_decay"};
  EXPECT_EQ(nearest("train.epoch", names), "train.epochs");
  EXPECT_EQ(nearest("optimiser.lr", names), "optimizer.lr");
  EXPECT_EQ(nearest("train.bacth_size", names), "train.batch_size");
  EXPECT_EQ(nearest("zzzzzzzzzz", names), "");
}

TEST(Human, SizesDurationsCounts) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_duration(12.34), "12.3s");
  EXPECT_EQ(human_duration(3725), "1h02m");
  EXPECT_EQ(human_duration(185), "3m05s");
  EXPECT_EQ(human_count(1234567), "1 234 567");
  EXPECT_EQ(human_count(-1234), "-1 234");
  EXPECT_EQ(human_count(123), "123");
}

TEST(ShapeText, ListsTheSizes) {
  EXPECT_EQ(shape_text(std::vector<int64_t>{}), "[]");
  EXPECT_EQ(shape_text(std::vector<int64_t>{-1}), "[-1]");
  EXPECT_EQ(shape_text(std::vector<uint64_t>{120, 0, uint64_t(-1)}),
            "[120, 0, 18446744073709551615]");
}

TEST(JoinFirst, CountsTheOthers) {
  const std::vector<std::string> parts = {"a", "b", "c"};
  EXPECT_EQ(join_first(parts, 3), "a, b, c");
  EXPECT_EQ(join_first(parts, 2), "a, b and 1 more");
  EXPECT_EQ(join_first({}, 2), "");
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a.b..c", '.'), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", '.'), (std::vector<std::string>{""}));
}

TEST(Trimmed, IsWithoutSpaceAtItsEnds) {
  EXPECT_EQ(trimmed("\t a b \r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \t\r\n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Words, AreWhatIsBetweenSpaces) {
  EXPECT_EQ(words("ssh -o  BatchMode=yes\t-x\r\n"),
            (std::vector<std::string>{"ssh", "-o", "BatchMode=yes", "-x"}));
  EXPECT_TRUE(words("").empty());
  EXPECT_TRUE(words(" \t\n").empty());
  EXPECT_EQ(words("one"), std::vector<std::string>{"one"});
}

}  // namespace
}  // namespace dtrain
