#include "convert/name_list.h"

#include <gmock/gmock.h>

#include <fstream>
#include <vector>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// By the place in `names`, without their extensions too.
FindSample among(std::vector<std::string> names) {
  return [names](const std::string& name) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (name == names[i] || name + ".png" == names[i]) return i;
    }
    return kNoSample;
  };
}
const FindSample kFind = among({"a/0.png", "a/1.png", "b/0.png", "ü/0.png", "#b/0 1.png"});

// Samples with the numbers after them
using Entries = std::vector<std::pair<size_t, std::optional<int64_t>>>;

Entries entries(const std::string& bytes, const FindSample& find = kFind) {
  const testing::TempDir folder;
  std::ofstream(folder / "list.txt", std::ios::binary) << bytes;
  Entries found;
  read_name_list(folder / "list.txt", find, [&](const ListedSample& listed) {
    found.emplace_back(listed.sample, listed.label);
  });
  return found;
}

std::vector<size_t> samples(const std::string& bytes, const FindSample& find = kFind) {
  std::vector<size_t> found;
  for (const auto& [sample, label] : entries(bytes, find)) {
    EXPECT_EQ(label, std::nullopt) << bytes;
    found.push_back(sample);
  }
  return found;
}

std::string utf16(const std::u16string& text, bool little_endian) {
  std::string bytes;
  for (const char16_t unit : text) {
    const char low = static_cast<char>(unit & 0xff), high = static_cast<char>(unit >> 8);
    bytes += little_endian ? low : high;
    bytes += little_endian ? high : low;
  }
  return bytes;
}

void expect_refused(const std::string& bytes, const std::string& part,
                    const FindSample& find = kFind) {
  testing::expect_error<DataError>([&] { entries(bytes, find); }, {part});
}

TEST(NameList, TakesNamesAsTheyAreWithAndWithoutExtension) {
  EXPECT_THAT(samples("a/0.png\nb/0\n\n  a/1 \t\n"), ElementsAre(0u, 2u, 1u));
  EXPECT_THAT(samples(""), ElementsAre());
  EXPECT_THAT(samples("a/0\na/0\n"), ElementsAre(0u, 0u));
  expect_refused("a/0\na/2.png\n", "list.txt:2: no sample is called a/2.png");
  expect_refused("a/0\nx\n", "two samples are called x; add the extension",
                 [](const std::string& name) { return name == "x" ? kTwoSamples : size_t{0}; });
}

TEST(NameList, TakesTheLineEndsAndEncodingsOfOtherSystems) {
  EXPECT_THAT(samples("a/0\r\nb/0\r\n"), ElementsAre(0u, 2u));
  EXPECT_THAT(samples("a/0\rb/0\r"), ElementsAre(0u, 2u));
  EXPECT_THAT(samples("\uFEFFa/0\nb/0"), ElementsAre(0u, 2u));
  for (const bool little_endian : {true, false}) {
    EXPECT_THAT(samples(utf16(u"\uFEFFa/0\r\nü/0\r\n", little_endian)), ElementsAre(0u, 3u));
    EXPECT_THAT(samples(utf16(u"a/0\nü/0", little_endian)), ElementsAre(0u, 3u))
        << "no byte order mark";
    EXPECT_THAT(samples(utf16(u"a\U0001F98A", little_endian), among({"a🦊"})), ElementsAre(0u));
  }
  expect_refused(utf16(u"\uFEFF\xd83e\u0061\xdd8a/0", true),
                 ":1: no sample");                                  // two halves that are apart
  expect_refused(utf16(u"\uFEFFa/\xd83e", true), ":1: no sample");  // half a character
}

TEST(NameList, TakesTheSpellingsOfPaths) {
  EXPECT_THAT(samples("./a/0.png\n.\\a\\1.png\na\\0\na//1.png\na/./0\nc/../b/0\n"),
              ElementsAre(0u, 1u, 0u, 1u, 0u, 2u));
  EXPECT_THAT(samples("a\\b.png", among({"a/b.png", "a\\b.png"})), ElementsAre(1u))
      << "a name that has this character";
}

TEST(NameList, LeavesCommentsOut) {
  EXPECT_THAT(samples("# the training split\na/0.png # a face\n#\nb/0\t#\n#b/0 1\n"),
              ElementsAre(0u, 2u, 4u));
  EXPECT_THAT(samples("x.npz#3\nx.npz#1 # one\n", among({"x.npz#1", "x.npz#2", "x.npz#3"})),
              ElementsAre(2u, 0u));
}

TEST(NameList, LeavesOutAFolderBeforeAllNames) {
  EXPECT_THAT(samples("photos/a/0.png\nphotos/b/0.png\n"), ElementsAre(0u, 2u));
  EXPECT_THAT(samples("/data/photos/a/0.png\n# /x\n/data/photos/a/1.png\n"), ElementsAre(0u, 1u));
  EXPECT_THAT(samples("C:\\photos\\a\\0.png\nC:\\photos\\b\\0\n"), ElementsAre(0u, 2u));
  EXPECT_THAT(samples("photos/a/0.png\n"), ElementsAre(0u));
  EXPECT_THAT(samples("a/0\na/1\n"), ElementsAre(0u, 1u)) << "a folder of the samples stays";
  EXPECT_THAT(samples("b/a/0\nb/a/1\n", among({"a/0.png", "a/1.png", "b/a/0.png", "b/a/1.png"})),
              ElementsAre(2u, 3u));
  // Not before all
  expect_refused("photos/a/0\nother/a/1\n", ":1: no sample is called photos/a/0");
  expect_refused("photos/a/0\nphotos/a/9\nphotos/a/1\n", ":2: no sample is called photos/a/9");
  expect_refused("a/0\nphotos/a/1\n", ":2: no sample is called photos/a/1");
}

TEST(NameList, ReadsTheNumberOfAClass) {
  EXPECT_THAT(entries("a/0.png 0\na/1 0\nb/0.png\t1 # b\n./b/0.png,-3\n"),
              ElementsAre(Pair(0u, 0), Pair(1u, 0), Pair(2u, 1), Pair(2u, -3)));
  EXPECT_THAT(entries("photos/a/0.png 0\nphotos/b/0.png 1\n"),
              ElementsAre(Pair(0u, 0), Pair(2u, 1)));
  EXPECT_THAT(samples("#b/0 1\n"), ElementsAre(4u)) << "a name that ends in a number";
  expect_refused("a/0.png zero\n", ":1: no sample is called a/0.png zero");
  expect_refused("a/0.png 0.5\n", ":1: no sample is called a/0.png 0.5");
  expect_refused("0\n", ":1: no sample is called 0");
}

ListedSample numbered(const std::string& name, int64_t number, int line) {
  return {
      .sample = 0, .name = str(name, " ", number), .place = str("list:", line), .label = number};
}

TEST(ListedLabels, AgreeWithTheFoldersOneToOne) {
  ListedLabels labels;
  labels.check(numbered("a/0", 7, 1), 0);  // any number for a class
  labels.check(numbered("b/0", 3, 2), 1);
  labels.check(numbered("a/1", 7, 3), 0);
  labels.check({.sample = 0, .name = "c/0", .place = "list:4", .label = std::nullopt}, 2);
  testing::expect_error<DataError>(
      [&] { labels.check(numbered("b/1", 7, 5), 1); },
      {"list:5", "'b/1 7' contradicts 'b/0 3' (list:2)", "one class", "names alone"});
  testing::expect_error<DataError>(
      [&] { labels.check(numbered("c/1", 7, 6), 2); },
      {"list:6", "'c/1 7' contradicts 'a/0 7' (list:1)", "two classes"});
}

TEST(ListedLabels, AreRefusedWhereSamplesHaveNoClass) {
  ListedLabels labels;
  testing::expect_error<DataError>(
      [&] { labels.check(numbered("AFW/p0", 1, 1), -1); },
      {"list:1", "'AFW/p0 1' has a number", "no classes", "names alone"});
}

}  // namespace
}  // namespace dtrain::convert
