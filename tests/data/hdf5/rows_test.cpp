#include <gtest/gtest.h>

#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/layout.h"
#include "data/hdf5/row_set.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;
using testing::extras_of;
using testing::kRowCounts;
using testing::TempDir;
using testing::write_row_set;

TEST(Rows, ReadBackAsWritten) {
  const TempDir folder;
  for (const bool orders : {true, false}) {
    write_row_set(folder / "d.h5", orders, extras_of(6));
    const std::unique_ptr<Store> store = open_file(folder / "d.h5");
    EXPECT_EQ(store->schema().input, (Field{Element::kFloat32, {kVariable, 3}}));
    EXPECT_EQ(store->schema().target.variable(), orders);
    EXPECT_EQ(store->schema().target.element, Element::kInt64);
    for (int64_t id = 0; id < 6; ++id) {
      const int64_t rows = kRowCounts[static_cast<size_t>(id)];
      EXPECT_EQ(store->input_rows(id), rows);
      EXPECT_EQ(store->input_bytes(id), rows * 12);
      EXPECT_EQ(store->target_rows(id), orders ? rows : 1);
      EXPECT_EQ(store->target_bytes(id), orders ? rows * 8 : 8);
      EXPECT_EQ(read_input_as<float>(*store, id), testing::rows_of(id));
      EXPECT_EQ(read_target_as<int64_t>(*store, id), testing::row_targets_of(orders, id));
    }
    EXPECT_THROW(read_target_as<float>(*store, 0), Error) << "the stored type is int64";
    EXPECT_NO_THROW(store->verify());
    EXPECT_NO_THROW(open_file(probe(folder / "d.h5"))->verify());
  }
}

TEST(Rows, ASampleMayBeEmpty) {
  const TempDir folder;
  const auto writer =
      Writer::create(folder / "d.h5", testing::row_schema(true, 3), {0, 2, 0}, {0, 2, 0});
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> order{1, 0};
  writer->write(0, {}, {});
  writer->write(1, std::as_bytes(std::span(values)), std::as_bytes(std::span(order)));
  writer->write(2, {}, {});
  writer->finish(extras_of(3));
  const std::unique_ptr<Store> store = open_file(folder / "d.h5");
  EXPECT_EQ(store->input_rows(0), 0);
  EXPECT_TRUE(read_input_as<float>(*store, 2).empty());
  EXPECT_EQ(read_target_as<int64_t>(*store, 1), order);
  EXPECT_NO_THROW(store->verify());
}

TEST(Rows, TheWriterChecksTheNumberOfRows) {
  const TempDir folder;
  const auto create = [&](std::vector<int64_t> input_rows, std::vector<int64_t> target_rows) {
    return Writer::create(folder / "d.h5", testing::row_schema(true, 2), input_rows, target_rows);
  };
  EXPECT_THROW(create({}, {}), Error);
  EXPECT_THROW(create({1, 2}, {1}), Error);
  EXPECT_THROW(create({1, -1}, {1, 1}), Error);
  EXPECT_THROW(create({0, 0}, {1, 1}), Error);
  EXPECT_THROW(Writer::create(folder / "d.h5", testing::small_schema(2), {1, 1}), Error);
  const auto writer = create({1, 2}, {1, 2});
  const std::vector<std::byte> row(12), target(8);
  EXPECT_NO_THROW(writer->write(0, row, target));
  expect_error<Error>([&] { writer->write(1, row, target); }, {"sample 1 of 12 bytes, not 24"});
}

TEST(Rows, VerifyFindsDamageInValuesAndOffsets) {
  const TempDir folder;
  write_row_set(folder / "good.h5", true, extras_of(6));
  const Layout layout = probe(folder / "good.h5");
  const std::map<std::string, Extent> parts = {{"inputs", layout.inputs},
                                               {"targets", layout.targets},
                                               {"input offsets", layout.input_offsets},
                                               {"target offsets", layout.target_offsets}};
  for (const auto& [name, extent] : parts) {
    ASSERT_GT(extent.bytes, 0) << name;
    for (int64_t at = 0; at < extent.bytes; at += 3) {
      testing::copy_and_change(folder / "good.h5", folder / "bad.h5", extent.offset + at);
      EXPECT_THROW(open_file(folder / "bad.h5")->verify(), DataError) << name << " byte " << at;
    }
  }
}

// If a row moves between two samples with equal values, only the index checksum changes.
TEST(Rows, TheIndexChecksumCoversTheOffsets) {
  const TempDir folder;
  Schema schema{"sequence", {Element::kFloat32, {kVariable, 1}}, {Element::kInt64, {}}, 2, 0};
  const std::vector<float> values{5, 5};
  const std::vector<int64_t> target{0};
  const auto write = [&](const char* name, std::vector<int64_t> rows) {
    const auto writer = Writer::create(folder / name, schema, rows);
    for (int64_t id = 0; id < 2; ++id) {
      writer->write(id,
                    std::as_bytes(std::span(values).first(
                        static_cast<size_t>(rows[static_cast<size_t>(id)]))),
                    std::as_bytes(std::span(target)));
    }
    writer->finish(extras_of(2));
    return probe(folder / name).index_checksum;
  };
  EXPECT_NE(write("a.h5", {1, 1}), write("b.h5", {2, 0}));
}

TEST(InspectRows, ReportsLengthsAndClasses) {
  const TempDir folder;
  Writer::Extras extras = extras_of(6);
  extras.attributes["class_names"] = "walk\nrun\nstand still";
  write_row_set(folder / "s.h5", false, extras);
  EXPECT_EQ(class_names(open_file(folder / "s.h5")->origin()),
            (std::vector<std::string>{"walk", "run", "stand still"}));
  const std::string sequences = inspect_data(probe(folder / "s.h5"), true);
  for (const char* part :
       {"float32 [rows, 3], at byte", "lengths: 1 to 7, median 4, 24 rows in all", "int64 []",
        "class 0 walk: 2", "class 2 stand still: 2", "all 6 samples match"}) {
    EXPECT_NE(sequences.find(part), std::string::npos) << part << " is not in\n" << sequences;
  }
  EXPECT_EQ(sequences.find("class_names"), std::string::npos) << "the classes are listed above";

  extras.attributes["class_names"] = "walk\nrun";
  write_row_set(folder / "s.h5", false, extras);
  EXPECT_NE(inspect_data(probe(folder / "s.h5"), false).find("2 targets are outside the classes"),
            std::string::npos);

  std::string many = "0";
  for (int i = 1; i < 1000; ++i) many += "\n" + std::to_string(i);
  extras.attributes["class_names"] = many;
  write_row_set(folder / "s.h5", false, extras);
  EXPECT_NE(
      inspect_data(probe(folder / "s.h5"), false).find("1 000 classes of 0 (3) to 2 (2) samples"),
      std::string::npos);

  write_row_set(folder / "o.h5", true, extras_of(6));
  const std::string orders = inspect_data(probe(folder / "o.h5"), false);
  EXPECT_NE(orders.find("int64 [rows]"), std::string::npos) << orders;

  write_row_set(folder / "n.h5", false, extras_of(6));
  EXPECT_NE(
      inspect_data(probe(folder / "n.h5"), false).find("element 0: 0.000 to 2.000, mean 1.000"),
      std::string::npos);
}

}  // namespace
}  // namespace dtrain::data
