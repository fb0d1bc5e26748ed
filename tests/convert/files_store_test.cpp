#include "convert/files_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "convert/convert.h"
#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "formats/list_files.h"
#include "formats/npz.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "synth/synth.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using Metadata = std::map<std::string, std::string>;

RawSamples samples_of(const std::string& name) {
  const catalog::TaskEntry& task = catalog::row(catalog::task_named(name));
  return {.task = task, .sample = task.sample};
}

std::unique_ptr<data::Store> opened(const Metadata& metadata,
                                    const std::vector<std::string>& inputs,
                                    const std::string& layout = "") {
  formats::ToolFiles left_out;
  const RawSamples kind = samples_of(metadata.at("task"));
  return open_files(kind, metadata,
                    formats::list_files(inputs, raw_extensions(kind.sample), left_out), layout);
}

class FilesStore : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (files / name).string(); }

  // Checks that every raw file gives the same bytes as the converted file.
  void expect_as_converted(const Metadata& metadata, const std::string& source,
                           const std::string& converter, int size,
                           const std::string& layout = "") const {
    ConvertOptions o;
    o.source = files / source;
    o.out = files / "o.h5";
    o.size = size;
    o.force = true;
    convert(converter, o);
    const auto stored = data::open_file(files / "o.h5");
    const auto raw = opened(metadata, {path(source)}, layout);
    ASSERT_EQ(raw->schema().samples, stored->schema().samples);
    EXPECT_EQ(raw->schema().input, stored->schema().input);
    EXPECT_EQ(raw->schema().target, stored->schema().target);
    for (int64_t id = 0; id < raw->schema().samples; ++id) {
      const std::string name = raw->origin().source(id);
      EXPECT_TRUE(name.ends_with(stored->origin().source(id)))
          << name << " is not " << stored->origin().source(id);
      std::vector<std::byte> a(static_cast<size_t>(raw->input_bytes(id))),
          b(static_cast<size_t>(stored->input_bytes(id)));
      raw->read_input(id, a);
      stored->read_input(id, b);
      EXPECT_EQ(a, b) << name;
    }
  }
  testing::TempDir files;
};

TEST_F(FilesStore, PicturesEqualConvertedOnes) {
  synth::synth("classify", {.layout = "images", .out = files / "raw", .samples = 40, .size = 48});
  expect_as_converted({{"task", "classify"}, {"image_size", "28"}, {"stored_size", "32"}}, "raw",
                      "images", 32);
  const auto raw =
      opened({{"task", "classify"}, {"image_size", "28"}, {"class_names", "a\nb"}}, {path("raw")});
  EXPECT_EQ(raw->schema().input.shape, (std::vector<int64_t>{28, 28, 3}));
  EXPECT_EQ(raw->origin().attribute("class_names"), "a\nb");
  EXPECT_EQ(data::read_target_as<int64_t>(*raw, 0), std::vector<int64_t>{-1});
  const auto heads = opened({{"task", "headpose"}, {"image_size", "28"}}, {path("raw")});
  EXPECT_TRUE(std::isnan(data::read_target_as<float>(*heads, 0)[2]));
}

TEST_F(FilesStore, HeadsOfAPublishedSetEqualConvertedOnes) {
  const Metadata metadata{{"task", "headpose"}, {"image_size", "28"}, {"stored_size", "40"}};
  synth::synth("headpose", {.layout = "300wlp", .out = files / "lp", .samples = 12, .size = 96});
  expect_as_converted(metadata, "lp", "300wlp", 40, "300wlp");
  expect_as_converted(metadata, "lp/AFW", "aflw2000", 40, "aflw2000");
  synth::synth("headpose", {.layout = "biwi", .out = files / "kinect", .samples = 12, .size = 96});
  expect_as_converted(metadata, "kinect", "biwi", 40, "biwi");

  const auto bare = opened(metadata, {path("lp")}),
             cropped = opened(metadata, {path("lp")}, "300wlp");
  std::vector<std::byte> a(static_cast<size_t>(bare->input_bytes(0))), b(a.size());
  bare->read_input(0, a);
  cropped->read_input(0, b);
  EXPECT_NE(a, b);

  fs::remove(fs::path(cropped->origin().source(0)).replace_extension(".mat"));
  expect_error<DataError>([&] { cropped->read_input(0, b); },
                          {cropped->origin().source(0), ".mat next to it"});
  const auto wrong = opened(metadata, {path("lp")}, "biwi");
  expect_error<DataError>([&] { wrong->read_input(0, b); },
                          {"its name is not frame_NNNNN_rgb.png"});
}

TEST_F(FilesStore, ALinkThatLeadsNowhereIsABadSample) {
  synth::synth("sequence", {.layout = "npy", .out = files / "raw", .samples = 3});
  fs::create_symlink("gone", files / "raw/zz.npy");
  fs::create_symlink("gone", files / "gone.png");
  fs::create_symlink("gone", files / "gone.npz");
  const auto fails = [](const data::Store& store, int64_t id) {
    std::vector<std::byte> out(static_cast<size_t>(store.input_bytes(id)));
    expect_error<DataError>([&] { store.read_input(id, out); },
                            {store.origin().source(id), "No such file"});
  };
  const auto sequences = opened({{"task", "sequence"}, {"features", "6"}}, {path("raw")});
  ASSERT_EQ(sequences->schema().samples, 4);
  fails(*sequences, 3);
  fails(*opened({{"task", "classify"}, {"image_size", "8"}}, {path("gone.png")}), 0);
  fails(*opened({{"task", "pointer"}}, {path("gone.npz")}), 0);
}

TEST_F(FilesStore, SequencesEqualConvertedOnes) {
  synth::synth("sequence", {.layout = "npy", .out = files / "raw", .samples = 30});
  expect_as_converted({{"task", "sequence"}, {"features", "6"}}, "raw", "sequence", 0);
}

TEST_F(FilesStore, SetsEqualConvertedOnes) {
  synth::synth("pointer", {.layout = "npz", .out = files / "raw.npz", .samples = 30});
  expect_as_converted({{"task", "pointer"}}, "raw.npz", "pointer", 0);
  const auto raw = opened({{"task", "pointer"}}, {path("raw.npz")});
  EXPECT_EQ(data::read_target_as<int64_t>(*raw, 4),
            std::vector<int64_t>(static_cast<size_t>(raw->input_rows(4)), -1));
}

TEST_F(FilesStore, SetsWithoutLengthsUseTheirOrder) {
  const std::vector<float> features(2 * 3 * 7, 0.5f);
  const std::vector<int64_t> order{1, 0, -1, 2, 0, 1};
  formats::write_npz(files / "p.npz", {{"features", formats::to_npy(features, {2, 3, 7})},
                                       {"order", formats::to_npy(order, {2, 3})}});
  const auto raw = opened({{"task", "pointer"}}, {path("p.npz")});
  EXPECT_EQ(raw->input_rows(0), 2);
  EXPECT_EQ(raw->input_rows(1), 3);
  formats::write_npz(files / "p.npz", {{"features", formats::to_npy(features, {2, 3, 7})}});
  EXPECT_EQ(opened({{"task", "pointer"}}, {path("p.npz")})->input_rows(0), 3)
      << "without lengths and order, all elements count";
}

TEST_F(FilesStore, ABadFileIsABadSample) {
  synth::synth("sequence", {.layout = "npy", .out = files / "raw", .samples = 3});
  std::ofstream(files / "raw/zz.npy") << "no array";
  formats::write_npz(files / "bad.npz", {{"x", formats::to_npy(std::vector<float>{1}, {1})}});
  formats::write_npz(files / "nan.npz",
                     {{"features", formats::to_npy(std::vector<float>(7, NAN), {1, 1, 7})}});
  std::ofstream(files / "no.png") << "no picture";
  const auto fails = [&](const data::Store& store, int64_t id,
                         const std::vector<std::string>& parts) {
    std::vector<std::byte> out(static_cast<size_t>(store.input_bytes(id)));
    expect_error<DataError>([&] { store.read_input(id, out); }, parts);
  };
  const auto sequences = opened({{"task", "sequence"}, {"features", "6"}}, {path("raw")});
  EXPECT_EQ(sequences->schema().samples, 4);
  EXPECT_GT(sequences->input_rows(0), 1);
  EXPECT_EQ(sequences->input_rows(3), 1);
  fails(*sequences, 3, {"zz.npy", "not a .npy file"});
  fails(*opened({{"task", "sequence"}, {"features", "5"}}, {path("raw")}), 0,
        {"has 6 features", "network expects 5"});
  const auto sets = opened({{"task", "pointer"}}, {path("bad.npz"), path("nan.npz")});
  EXPECT_EQ(sets->schema().samples, 2);
  fails(*sets, 0, {"bad.npz", "its arrays are x"});
  fails(*sets, 1, {"nan.npz#0", "NaN"});
  const auto pictures = opened({{"task", "classify"}, {"image_size", "8"}}, {path("no.png")});
  fails(*pictures, 0, {"no.png", "not a JPEG, PNG or WebP"});
  expect_error<DataError>([&] { pictures->verify(); }, {"no.png"});
}

TEST_F(FilesStore, NamesWhatIsMissing) {
  expect_error<DataError>(
      [&] {
        open_files(samples_of("classify"), {{"image_size", "8"}}, {});
      },
      {"no files"});
  expect_error<DataError>([&] { open_files(samples_of("pointer"), {}, {path("gone.npz")}); },
                          {"no such file", "gone.npz"});
  std::ofstream(files / "x") << "x";
  expect_error<DataError>([&] { opened({{"task", "classify"}}, {path("x")}); }, {"image_size"});
  expect_error<DataError>(
      [&] {
        opened({{"task", "sequence"}, {"features", "many"}}, {path("x")});
      },
      {"features: many"});
  synth::synth("classify", {.out = files / "d.h5", .samples = 10, .size = 16});
  expect_error<DataError>(
      [&] {
        opened({{"task", "classify"}, {"image_size", "8"}}, {path("d.h5")});
      },
      {"d.h5 is an HDF5 file", "alone"});
}

TEST_F(FilesStore, ManyThreadsReadAtOnce) {
  synth::synth("classify", {.layout = "images", .out = files / "raw", .samples = 20, .size = 32});
  const auto raw = opened({{"task", "classify"}, {"image_size", "16"}}, {path("raw")});
  std::vector<uint64_t> sums(20), again(20);
  for (size_t id = 0; id < 20; ++id) sums[id] = raw->checksum(static_cast<int64_t>(id));
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t id = t; id < 20; id += 4) again[id] = raw->checksum(static_cast<int64_t>(id));
      });
    }
  }
  EXPECT_EQ(sums, again);
}

}  // namespace
}  // namespace dtrain::convert
