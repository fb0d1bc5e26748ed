#include "convert/sample_list.h"

#include <gtest/gtest.h>

#include "convert/name_index.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

TEST(Texts, GivesBackWhatWasAdded) {
  Texts texts;
  std::vector<std::string> all;
  for (size_t i = 0; i < 100; ++i)
    all.push_back(std::string(i * 37 % 50, static_cast<char>('a' + i % 26)));
  for (const std::string& text : all) texts.push_back(text);
  ASSERT_EQ(texts.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(texts[i], all[i]);
  testing::expect_error<DataError>([&] { texts.push_back(std::string(1 << 16, 'x')); },
                                   {"a name of 65536 bytes"});
}

TEST(SampleList, SortsFilesWithAllThatBelongsToThem) {
  SampleList list;
  list.push_back({.name = "c", .group = "c"});
  list.push_back({.name = "a", .group = "both", .label = 7, .split = "val"});
  list.push_back({.name = "b", .group = "both", .label = 3, .split = "test"});
  list.sort_by_name();
  ASSERT_EQ(list.size(), 3u);
  const char* names[] = {"a", "b", "c"};
  const char* groups[] = {"both", "both", "c"};
  const int64_t labels[] = {7, 3, -1};
  const Split splits[] = {Split::kVal, Split::kTest, Split::kNone};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list.name(i), names[i]);
    EXPECT_EQ(list.group_name(list.group(i)), groups[i]);
    EXPECT_EQ(list.label(i), labels[i]);
    EXPECT_EQ(list.split(i), splits[i]);
    EXPECT_EQ(list[i].split, std::string(name_of(splits[i])));
  }
  EXPECT_EQ(list.group(0), list.group(1));
  EXPECT_EQ(list.groups(), 2u);
}

TEST(SampleList, FilesOfTheirOwnNeedNoGroups) {
  SampleList list;
  for (const char* name : {"b", "a"}) list.push_back({.name = name, .group = name});
  list.sort_by_name();
  EXPECT_TRUE(list.own_groups());
  EXPECT_FALSE(list.has_labels());
  EXPECT_FALSE(list.has_splits());
  EXPECT_EQ(list.group_name(list.group(1)), "b");
}

TEST(SampleList, ElementsAreNamedByTheirPlace) {
  SampleList list = SampleList::elements_of("a.npz", 120);
  EXPECT_EQ(list.name(0), "a.npz#0");
  EXPECT_EQ(list.name(119), "a.npz#119");
  EXPECT_EQ(list.element_named("a.npz#119"), 119u);
  for (const char* other :
       {"a.npz#120", "a.npz#07", "a.npz#", "a.npz", "a.npz#1x", "b.npz#1", "a.npz#-1", ""}) {
    EXPECT_EQ(list.element_named(other), std::nullopt) << other;
  }
  EXPECT_TRUE(list.own_groups());
  list.set_groups([](size_t i) { return static_cast<int64_t>(i % 7) - 3; });
  EXPECT_EQ(list.groups(), 7u);
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list.group_name(list.group(i)), str("group ", static_cast<int64_t>(i % 7) - 3));
  }
}

TEST(NameIndex, FindsNamesBeforeNamesWithoutExtension) {
  SampleList list;
  for (const char* name : {"a/x.jpg", "a/y.jpg", "a/y.png", "a/z", "a/z.jpg", "b.c/d"}) {
    list.push_back({.name = name, .group = name});
  }
  const NameIndex index(list);
  const auto sample = [&](const char* name) -> int {
    const auto found = index.find(name);
    return !found ? -1 : found->ambiguous ? -2 : static_cast<int>(found->sample);
  };
  EXPECT_EQ(sample("a/x.jpg"), 0);
  EXPECT_EQ(sample("a/x"), 0);
  EXPECT_EQ(sample("a/y"), -2);
  EXPECT_EQ(sample("a/y.png"), 2);
  EXPECT_EQ(sample("a/z"), 3) << "a whole name, and another one without its extension";
  EXPECT_EQ(sample("b.c/d"), 5);
  EXPECT_EQ(sample("b"), -1);

  const SampleList elements = SampleList::elements_of("a.npz", 3);
  const NameIndex of_elements(elements);
  EXPECT_EQ(of_elements.find("a.npz#2")->sample, 2u);
  EXPECT_EQ(of_elements.find("a"), std::nullopt)
      << "all of them have this name without the extension";
  EXPECT_EQ(of_elements.find("a.npz#3"), std::nullopt);
  const SampleList decomposed = SampleList::elements_of("cafe\xcc\x81.npz", 3);
  EXPECT_EQ(NameIndex(decomposed).find("caf\xc3\xa9.npz#2")->sample, 2u);
}

}  // namespace
}  // namespace dtrain::convert
