#include "data/hdf5/file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "data/hdf5/data_set.h"
#include "data/hdf5/layout.h"
#include "data/store.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;
using testing::extras_of;
using testing::input_of;
using testing::TempDir;
using testing::write_data_set;

void overwrite(const std::filesystem::path& file, int64_t offset, char byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(offset);
  stream.put(byte);
  ASSERT_TRUE(stream.flush());
}

TEST(Store, ReadsBackWhatWasWritten) {
  const TempDir folder;
  Writer::Extras extras = extras_of(7);
  extras.splits = {{"train", {6, 0, 2}}, {"test", {1}}, {"val", {}}};
  extras.source[3] = "größer/ü.jpg";
  extras.source[4] = "";
  write_data_set(folder / "d.h5", 7, extras);

  const std::unique_ptr<Store> store = open_file(folder / "d.h5");
  EXPECT_EQ(store->schema().task, "headpose");
  EXPECT_EQ(store->schema().samples, 7);
  EXPECT_EQ(store->schema().input, (Field{Element::kUint8, {5, 4, 3}}));
  EXPECT_EQ(store->schema().target, (Field{Element::kFloat32, {3}}));
  for (int64_t id = 0; id < 7; ++id) {
    std::vector<std::byte> input(60);
    std::vector<std::byte> target(12);
    store->read_input(id, input);
    store->read_target(id, target);
    EXPECT_EQ(input, input_of(id));
    EXPECT_EQ(target, testing::target_bytes_of(id));
    EXPECT_EQ(read_target_as<float>(*store, id), testing::target_of(id));
    EXPECT_EQ(store->origin().source(id), extras.source[static_cast<size_t>(id)]);
    EXPECT_EQ(store->origin().group(id), id / 2);
    EXPECT_EQ(store->checksum(id), sample_checksum(input, target));
  }
  EXPECT_EQ(store->origin().split("train"), (std::vector<int64_t>{6, 0, 2}));
  EXPECT_EQ(store->origin().split("test"), std::vector<int64_t>{1});
  EXPECT_TRUE(store->origin().split("val").empty());
  EXPECT_TRUE(store->origin().split("other").empty());
  EXPECT_EQ(store->origin().attribute("crop"), "0.6");
  EXPECT_EQ(store->origin().attribute("version"), "1");
  EXPECT_EQ(store->origin().attribute("absent"), "");
  EXPECT_NO_THROW(store->verify());
}

// The values of the first format version: checksums of image files must never change.
TEST(Store, ChecksumsOfImagesEqualTheFirstVersions) {
  const TempDir folder;
  Writer::Extras extras = extras_of(7);
  extras.splits["train"] = {6, 0, 2};
  write_data_set(folder / "d.h5", 7, extras);
  const Layout layout = probe(folder / "d.h5");
  EXPECT_EQ(layout.schema.checksum, 0xa1476a0a533e5e56u);
  EXPECT_EQ(layout.index_checksum, 0x5ac91178e1ca4826u);
}

TEST(Store, TheChecksumDependsOnTheSamplesOnly) {
  const TempDir folder;
  Writer::Extras other = extras_of(4);
  other.splits["train"] = {1, 2};
  write_data_set(folder / "a.h5", 4, extras_of(4));
  write_data_set(folder / "b.h5", 4, other);
  write_data_set(folder / "c.h5", 5, extras_of(5));
  EXPECT_EQ(open_file(folder / "a.h5")->schema().checksum,
            open_file(folder / "b.h5")->schema().checksum);
  EXPECT_NE(open_file(folder / "a.h5")->schema().checksum,
            open_file(folder / "c.h5")->schema().checksum);
}

TEST(Store, ManyThreadsReadAtOnce) {
  const TempDir folder;
  write_data_set(folder / "d.h5", 64, extras_of(64));
  const std::unique_ptr<Store> store = open_file(folder / "d.h5");
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        std::vector<std::byte> input(60);
        for (int64_t i = 0; i < 640; ++i) {
          store->read_input(i % 64, input);
          if (input != input_of(i % 64)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Store, OpensFromALayoutWithoutTheLibrary) {
  const TempDir folder;
  write_data_set(folder / "d.h5", 3, extras_of(3));
  const Layout layout = probe(folder / "d.h5");
  EXPECT_GT(layout.inputs.offset, 0);
  EXPECT_EQ(layout.inputs.bytes, 3 * 60);
  EXPECT_NO_THROW(open_file(layout)->verify());
  std::ofstream(folder / "d.h5", std::ios::app) << "x";
  expect_error<DataError>([&] { open_file(layout); }, {"d.h5", "changed"});
}

TEST(Verify, NamesTheFirstDamagedSampleAndTheirNumber) {
  const TempDir folder;
  write_data_set(folder / "d.h5", 9, extras_of(9));
  const Layout layout = probe(folder / "d.h5");
  overwrite(folder / "d.h5", layout.inputs.offset + 7 * 60 + 59, '\xff');
  overwrite(folder / "d.h5", layout.targets.offset + 4 * 12, '\x55');
  expect_error<DataError>([&] { open_file(folder / "d.h5")->verify(); },
                          {"d.h5#4", "photo_4.jpg", "2 of 9", "checksum"});
}

TEST(Verify, FindsDamageInEachPart) {
  const TempDir folder;
  Writer::Extras extras = extras_of(9);
  extras.splits["train"] = {0, 1, 2, 3};
  write_data_set(folder / "good.h5", 9, extras);
  const Layout layout = probe(folder / "good.h5");
  const std::map<std::string, Extent> parts = {{"inputs", layout.inputs},
                                               {"targets", layout.targets},
                                               {"checksums", layout.checksums},
                                               {"group", layout.group},
                                               {"source bytes", layout.source_bytes},
                                               {"source offsets", layout.source_offsets},
                                               {"train", layout.splits.at("train")}};
  for (const auto& [name, extent] : parts) {
    for (int64_t at = 0; at < extent.bytes; at += 13) {
      testing::copy_and_change(folder / "good.h5", folder / "bad.h5", extent.offset + at);
      EXPECT_THROW(open_file(folder / "bad.h5")->verify(), DataError) << name << " byte " << at;
    }
  }
}

TEST(Store, AFileThatIsOverwrittenIsNoticed) {
  const TempDir folder;
  write_data_set(folder / "d.h5", 9, extras_of(9));
  const std::unique_ptr<Store> store = open_file(folder / "d.h5");
  EXPECT_NO_THROW(store->origin().check_unchanged());
  std::filesystem::copy_file(folder / "d.h5", folder / "copy.h5");
  // Another file: this one stays as it was
  std::filesystem::rename(folder / "copy.h5", folder / "d.h5");
  EXPECT_NO_THROW(store->origin().check_unchanged());
  EXPECT_GT(store->origin().modified_ns(), 0);

  const std::unique_ptr<Store> again = open_file(folder / "d.h5");
  const auto written =
      std::filesystem::last_write_time(folder / "d.h5") + std::chrono::milliseconds(5);
  overwrite(folder / "d.h5", 4000, 'x');
  std::filesystem::last_write_time(folder / "d.h5", written);  // a disk may keep coarse times
  expect_error<DataError>([&] { again->origin().check_unchanged(); },
                          {"d.h5", "was written to since it was opened"});
  std::filesystem::resize_file(folder / "d.h5", 100);
  expect_error<DataError>([&] { again->origin().check_unchanged(); }, {"d.h5", "now has 100"});
}

TEST(Store, AFileThatShrinksWhileInUseIsAnErrorThatNamesTheSample) {
  const TempDir folder;
  write_data_set(folder / "d.h5", 100, extras_of(100));
  const std::unique_ptr<Store> store = open_file(folder / "d.h5");
  std::filesystem::resize_file(folder / "d.h5",
                               static_cast<uintmax_t>(probe(folder / "d.h5").inputs.offset + 60));
  std::vector<std::byte> input(60);
  EXPECT_NO_THROW(store->read_input(0, input));
  expect_error<DataError>([&] { store->read_input(50, input); }, {"d.h5#50", "/inputs", "shorter"});
}

}  // namespace
}  // namespace dtrain::data
