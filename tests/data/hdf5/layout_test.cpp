// What a process that a malicious file has taken over can send: every layout that is not consistent
// is refused.

#include "data/hdf5/layout.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <limits>

#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/layout_bytes.h"
#include "data/hdf5/row_set.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;

class LayoutOf : public ::testing::Test {
 protected:
  LayoutOf() {
    Writer::Extras extras = testing::extras_of(6);
    extras.splits = {{"train", {0, 1}}, {"test", {3}}};
    testing::write_data_set(folder / "images.h5", 6, extras);
    extras.attributes["class_names"] = "walk\nrun\nstand still";
    extras.attributes["seed"] = uint64_t{7};
    extras.attributes["share"] = 0.25;
    testing::write_row_set(folder / "rows.h5", true, extras);
    images = probe(folder / "images.h5");
    rows = probe(folder / "rows.h5");
  }

  static void expect_refusal(Layout layout, const std::function<void(Layout&)>& change,
                             const std::string& part) {
    EXPECT_NO_THROW(check(layout));
    change(layout);
    expect_error<DataError>([&] { check(layout); }, {layout.file.string(), part});
    expect_error<DataError>([&] { open_file(layout); }, {part});
  }

  const testing::TempDir folder;
  Layout images, rows;
};

TEST_F(LayoutOf, AFileSurvivesItsBytes) {
  for (const Layout* layout : {&images, &rows}) {
    const Layout back = decode(encode(*layout), layout->file);
    EXPECT_EQ(back.identity, layout->identity);
    EXPECT_EQ(back.schema.input, layout->schema.input);
    EXPECT_EQ(back.schema.target, layout->schema.target);
    EXPECT_EQ(back.schema.task, layout->schema.task);
    EXPECT_EQ(back.schema.checksum, layout->schema.checksum);
    EXPECT_EQ(back.input_offsets, layout->input_offsets);
    EXPECT_EQ(back.splits, layout->splits);
    EXPECT_EQ(back.attributes, layout->attributes);
    EXPECT_EQ(encode(back), encode(*layout));
    EXPECT_NO_THROW(open_file(back)->verify());
  }
}

TEST_F(LayoutOf, BytesThatAreNoneAreRefused) {
  const std::string whole = encode(rows);
  for (size_t kept = 0; kept < whole.size(); ++kept) {
    expect_error<DataError>([&] { decode(whole.substr(0, kept), "x.h5"); }, {"x.h5"});
  }
  expect_error<DataError>([&] { decode(whole + '\0', "x.h5"); }, {"1 bytes follow"});
}

// A list of strings, each of which takes 32 bytes of memory, that claims one for each byte
// that follows.
TEST_F(LayoutOf, BytesThatClaimManyEntriesAllocateLittle) {
  Layout layout = images;
  layout.other_attributes.clear();
  std::string bytes = encode(layout);
  constexpr size_t kAfterTheEntries = 8;  // the index checksum
  constexpr uint64_t kClaimed = 16 << 20;
  bytes.resize(bytes.size() - kAfterTheEntries - sizeof kClaimed);
  bytes.append(reinterpret_cast<const char*>(&kClaimed), sizeof kClaimed);
  bytes.append(kClaimed, '\0');
  const auto most_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const int64_t before = most_kib();
  expect_error<DataError>([&] { decode(bytes, "x.h5"); }, {"it ends early"});
  EXPECT_LT(most_kib() - before, 100 << 10) << "KiB";
}

// Whatever the bytes say, the result is a DataError or a store that reads all its samples.
TEST_F(LayoutOf, AnyChangedByteIsRefusedOrHarmless) {
  for (const Layout* layout : {&images, &rows}) {
    const std::string whole = encode(*layout);
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int change : {0x01, 0x10, 0x80, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ change);
        try {
          const auto store = open_file(decode(changed, layout->file));
          for (int64_t id = 0; id < store->schema().samples; ++id) {
            std::vector<std::byte> bytes(static_cast<size_t>(store->input_bytes(id)));
            store->read_input(id, bytes);
            bytes.resize(static_cast<size_t>(store->target_bytes(id)));
            store->read_target(id, bytes);
            store->origin().group(id);
            store->origin().source(id);
          }
          store->verify();
        } catch (const DataError&) {
        }
      }
    }
  }
}

TEST_F(LayoutOf, PlacesOutsideTheFileAreRefused) {
  const auto most = std::numeric_limits<int64_t>::max();
  expect_refusal(
      images, [&](Layout& l) { l.inputs.offset = l.identity.bytes - 359; }, "truncated");
  expect_refusal(
      images, [&](Layout& l) { l.inputs.offset = most; }, "truncated");
  expect_refusal(
      images, [&](Layout& l) { l.inputs.offset = -1; }, "negative");
  expect_refusal(
      images, [&](Layout& l) { l.targets.bytes = -72; }, "negative");
  expect_refusal(
      images, [&](Layout& l) { l.source_bytes.bytes = most; }, "/source/bytes");
  expect_refusal(
      rows, [&](Layout& l) { l.splits["train"].offset = most - 7; }, "/splits/train");
}

TEST_F(LayoutOf, SizesThatDoNotFitTheSchemaAreRefused) {
  const auto most = std::numeric_limits<int64_t>::max();
  expect_refusal(
      images, [&](Layout& l) { l.schema.samples = 0; }, "holds 0 samples");
  expect_refusal(
      images, [&](Layout& l) { l.schema.samples = -6; }, "holds -6 samples");
  expect_refusal(
      images, [&](Layout& l) { l.schema.samples = most; }, "more than a file");
  expect_refusal(
      images, [&](Layout& l) { l.schema.samples = 5; }, "/inputs has 6 entries");
  expect_refusal(
      images, [&](Layout& l) { l.inputs.bytes -= 1; }, "/inputs has 5 entries");
  expect_refusal(
      images,
      [&](Layout& l) {
        l.schema.input.shape = {most, most, 3};
      },
      "more bytes than a file");
  expect_refusal(
      images,
      [&](Layout& l) {
        l.schema.input.shape = {5, 0, 3};
      },
      "/inputs holds samples of");
  expect_refusal(
      images, [&](Layout& l) { l.schema.target.element = Element::kUint8; },
      "/targets holds samples of");
  expect_refusal(
      images, [&](Layout& l) { l.checksums.bytes -= 8; }, "/checksums has 5 entries");
  expect_refusal(
      images, [&](Layout& l) { l.group.bytes -= 4; },
      "/group has 44 bytes, which is not a multiple of 8");
  expect_refusal(
      images, [&](Layout& l) { l.source_offsets.bytes -= 8; }, "/source/offsets has 6 entries");
  expect_refusal(
      images, [&](Layout& l) { l.splits["train"].bytes = 12; },
      "/splits/train has 12 bytes, which is not a multiple of 8");
  expect_refusal(
      images, [&](Layout& l) { l.splits["../x"] = {}; }, "not a split");
  expect_refusal(
      rows, [&](Layout& l) { l.inputs.bytes -= 4; }, "which is not a whole number of rows of 12");
  expect_refusal(
      rows, [&](Layout& l) { l.target_offsets.bytes = 48; }, "/targets/offsets has 6 entries");
}

TEST_F(LayoutOf, AttributesThatAreNotValidAreRefused) {
  const auto with = [](const char* name, Attribute value) {
    return [=](Layout& l) {
      l.attributes[name] = value;
      l.attributes.erase(kAttributesChecksum);
    };
  };
  expect_refusal(rows, with("class_names", "a\nb\na"), "the class a twice");
  expect_refusal(rows, with("class_names", "walk\nrun\n"), "`class_names` has an empty name");
  expect_refusal(rows, with("class_names", "walk\n\nrun"), "`class_names` has an empty name");
  expect_refusal(rows, with("class_names", "\n"), "`class_names` has an empty name");
  expect_refusal(rows, with("class_names", "a\n\xff\xfe"), "`class_names` is not UTF-8");
  expect_refusal(rows, with("class_names", std::string("a\nb\0c", 5)),
                 "`class_names` has a zero byte");
  expect_refusal(rows, with("class_names", int64_t{3}), "`class_names` must be text");
  expect_refusal(rows, with("target_unit", "\xff"), "`target_unit` is not UTF-8");
  expect_refusal(
      rows, [](Layout& l) { l.attributes["class_names"] = "stand still\nrun\nwalk"; },
      "do not match");
  expect_refusal(
      rows, [](Layout& l) { l.attributes["seed"] = int64_t{7}; }, "do not match");
  expect_refusal(
      rows, [](Layout& l) { l.attributes["note"] = "x"; }, "do not match");
  expect_refusal(
      rows, [](Layout& l) { l.attributes[kAttributesChecksum] = "text"; }, "do not match");
  expect_refusal(
      rows, [](Layout& l) { l.other_attributes = {"list"}; },
      "`list` is neither text nor a single number");
  Layout older = rows;
  older.attributes.erase(kAttributesChecksum);
  older.other_attributes = {"list"};
  EXPECT_NO_THROW(check(older));
  older.attributes["class_names"] = "";
  EXPECT_NO_THROW(check(older)) << "no names";
}

// They would be ignored: the names of the targets, or the checksum.
TEST_F(LayoutOf, KnownAttributesThatAreListsAreRefused) {
  for (const std::string name :
       {"class_names", "target_names", "target_unit", kAttributesChecksum}) {
    for (const bool covered : {false, true}) {
      const auto as_list = [&](Layout& l) {
        l.attributes.erase(name);
        if (!covered) l.attributes.erase(kAttributesChecksum);
        l.other_attributes = {"list", name};
      };
      expect_refusal(rows, as_list, "`" + name + "` is neither text nor a single number: an array");
    }
  }
}

TEST_F(LayoutOf, AnEmptyTrainingSplitIsRefused) {
  expect_refusal(
      images, [](Layout& l) { l.splits["train"] = {}; }, "/splits/train is empty");
  Layout layout = images;
  layout.splits["val"] = {};
  EXPECT_NO_THROW(check(layout));
}

}  // namespace
}  // namespace dtrain::data
