// Class folders of pictures and sequences.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "convert/class_folders.h"
#include "convert/convert.h"
#include "convert/stored_sample.h"
#include "core/error.h"
#include "core/log.h"
#include "data/hdf5/file_store.h"
#include "formats/npy.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;

void write(const fs::path& file, std::span<const std::byte> bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

formats::Image plain(uint8_t level, int width = 20, int height = 12) {
  formats::Image image(width, height);
  std::fill(image.rgb.begin(), image.rgb.end(), level);
  return image;
}

class ClassSets : public ::testing::Test {
 protected:
  void picture(const std::string& name, int level) const {
    write(files / name, formats::encode_png(plain(static_cast<uint8_t>(level))));
  }
  void pictures(const std::string& folder, int count, int level) const {
    for (int i = 0; i < count; ++i) picture(str(folder, "/", i, ".png"), level + i);
  }
  void sequence(const std::string& name, int64_t rows, int64_t features, float first = 0) const {
    std::vector<float> values(static_cast<size_t>(rows * features), first);
    write(files / name, formats::to_npy(values, {rows, features}));
  }
  ConvertOptions options(const std::string& source, int size = 8) const {
    ConvertOptions o;
    o.source = files / source;
    o.out = files / "o.h5";
    o.size = size;
    o.force = true;
    return o;
  }
  std::map<std::string, std::string> reasons() const {
    std::map<std::string, std::string> result;
    // Outlives the loop over it
    const auto json = nlohmann::json::parse(read_text(files / "o.h5.quarantine.json"));
    for (const auto& entry : json.at("quarantined")) {
      result[entry.at("name")] = entry.at("reason");
    }
    return result;
  }
  void refused(const std::string& name, const std::vector<std::string>& parts) const {
    expect_error<DataError>([&] { convert(name, options("d")); }, parts);
    EXPECT_FALSE(fs::exists(files / "o.h5"));
    EXPECT_FALSE(fs::exists(files / "o.h5.partial"));
  }
  // The lines that a conversion logs and that have `part` in them.
  std::vector<std::string> lines_with(const std::string& part,
                                      const std::string& name = "images") const {
    std::vector<std::string> found;
    const log::LogTap tap([&](std::string_view line) {
      if (line.find(part) != std::string_view::npos) found.emplace_back(line);
    });
    convert(name, options("d"));
    return found;
  }
  testing::TempDir files;
};

TEST_F(ClassSets, PicturesGetSortedClassesAndStratifiedSplits) {
  pictures("d/zebra", 20, 10);
  pictures("d/ant", 40, 100);
  ConvertOptions o = options("d");
  const ConvertSummary summary = convert("images", o);
  EXPECT_EQ(summary.kept, 60);
  EXPECT_EQ(summary.splits,
            (std::map<std::string, int64_t>{{"test", 6}, {"train", 48}, {"val", 6}}));
  EXPECT_EQ(summary.classes,
            (std::vector<std::pair<std::string, int64_t>>{{"ant", 40}, {"zebra", 20}}));
  const auto store = data::open_file(files / "o.h5");
  store->verify();
  EXPECT_EQ(store->schema().task, "classify");
  EXPECT_EQ(store->schema().input, (data::Field{data::Element::kUint8, {8, 8, 3}}));
  EXPECT_EQ(store->schema().target, (data::Field{data::Element::kInt64, {}}));
  EXPECT_EQ(store->origin().attribute("class_names"), "ant\nzebra");
  std::map<std::string, int64_t> tested;
  for (const char* split : {"train", "val", "test"}) {
    for (const int64_t id : store->origin().split(split)) {
      const bool ant = store->origin().source(id).starts_with("ant/");
      EXPECT_EQ(data::read_target_as<int64_t>(*store, id), std::vector<int64_t>{ant ? 0 : 1});
      const int level = std::stoi(fs::path(store->origin().source(id)).stem()) + (ant ? 100 : 10);
      EXPECT_EQ(data::read_input_as<uint8_t>(*store, id),
                std::vector<uint8_t>(8 * 8 * 3, static_cast<uint8_t>(level)));
      if (std::string(split) == "test") ++tested[ant ? "ant" : "zebra"];
    }
  }
  EXPECT_EQ(tested, (std::map<std::string, int64_t>{{"ant", 4}, {"zebra", 2}}));
  o.split.seed = 2;
  convert("images", o);
  EXPECT_NE(data::open_file(files / "o.h5")->origin().split("test"), store->origin().split("test"));
  o.split.val_share = 0;
  o.split.test_share = 0.5;
  EXPECT_EQ(convert("images", o).splits,
            (std::map<std::string, int64_t>{{"test", 30}, {"train", 30}}));
}

TEST_F(ClassSets, KeepsTheSplitsOfTheFolders) {
  pictures("d/train/a", 3, 10);
  pictures("d/train/b", 4, 20);
  pictures("d/test/b", 2, 30);
  pictures("d/val/a/deep/er", 1, 40);
  write(files / "d/val/a/.hidden", {});
  write(files / "d/val/a/Thumbs.db", {});
  const ConvertSummary summary = convert("images", options("d"));
  EXPECT_EQ(summary.splits,
            (std::map<std::string, int64_t>{{"test", 2}, {"train", 7}, {"val", 1}}));
  const auto store = data::open_file(files / "o.h5");
  EXPECT_EQ(store->origin().source(store->origin().split("val")[0]), "val/a/deep/er/0.png");
  EXPECT_EQ(summary.repeated, 0);
}

TEST_F(ClassSets, SplitsMayHaveOtherNames) {
  pictures("d/Training/Training/a", 3, 10);  // as archives are unpacked
  pictures("d/Training/Training/b", 4, 20);
  pictures("d/Test/b", 2, 30);
  pictures("d/valid/a", 1, 40);
  pictures("d/dev/b", 1, 50);
  picture("d/Training/@eaDir/0.png", 1);
  const auto lines = lines_with("splits from folders");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("Test is the split test, Training/Training is the split train, dev is "
                          "the split val, valid "
                          "is the split val"),
            std::string::npos)
      << lines[0];
  const auto store = data::open_file(files / "o.h5");
  EXPECT_EQ(store->origin().attribute("class_names"), "a\nb");
  EXPECT_EQ(store->origin().split("train").size(), 7u);
  EXPECT_EQ(store->origin().split("val").size(), 2u);
  ASSERT_EQ(store->origin().split("test").size(), 2u);
  EXPECT_EQ(store->origin().source(store->origin().split("test")[0]), "Test/b/0.png");
  ConvertOptions o = options("d");
  o.splits_from_folders = false;
  EXPECT_EQ(convert("images", o).classes,
            (std::vector<std::pair<std::string, int64_t>>{
                {"Test", 2}, {"Training", 7}, {"dev", 1}, {"valid", 1}}));
  fs::remove(files / "o.h5");
  pictures("d/papers/x", 1, 60);
  refused("images", {"contains papers next to Test, Training, dev, valid",
                     "--splits-from-folders yes", "Test, Training"});
  o.splits_from_folders = true;
  EXPECT_EQ(convert("images", o).kept, 11);
  o.source = files / "no.npz";
  expect_error<UsageError>([&] { convert("arrays", o); },
                           {"--splits-from-folders applies only to images and sequence"});
}

TEST_F(ClassSets, ClassesMayBeNamedForSplitsInsideOfSplits) {
  pictures("d/train/test", 2, 10);
  pictures("d/train/val", 2, 20);
  pictures("d/test/val", 1, 30);
  EXPECT_EQ(convert("images", options("d")).classes,
            (std::vector<std::pair<std::string, int64_t>>{{"test", 2}, {"val", 3}}));
}

TEST_F(ClassSets, ATestFolderWithoutClassesIsLeftOut) {
  pictures("d/train/a", 3, 10);
  pictures("d/train/b", 3, 20);
  pictures("d/test", 5, 30);
  const auto lines = lines_with("left out: 5 files in");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(str("`dtrain predict RUN ", (files / "d/test").string(), "`")),
            std::string::npos)
      << lines[0];
  const auto store = data::open_file(files / "o.h5");
  EXPECT_EQ(store->origin().split("train").size(), 6u);
  EXPECT_TRUE(store->origin().split("test").empty());
  fs::remove(files / "o.h5");
  fs::rename(files / "d/test", files / "d/val");
  refused("images", {"d/val/0.png is not in a class folder",
                     "If val is itself a class: --splits-from-folders no"});
}

TEST_F(ClassSets, SaysThatTablesOfLabelsAreNotRead) {
  pictures("d/train_images", 3, 10);
  pictures("d/test_images", 3, 20);
  refused("images", {"d/test_images/0.png is not in a class folder"});
  try {
    convert("images", options("d"));
  } catch (const DataError& error) {  // as classes they would be train_images and test_images
    EXPECT_EQ(std::string(error.what()).find("--splits-from-folders"), std::string::npos)
        << error.what();
  }
  write(files / "d/train.csv", {});
  refused("images", {"Labels in a table, such as train.csv, are not read"});
}

TEST_F(ClassSets, WarnsOfSplitsBelowClasses) {
  for (const char* name : {"cat/train", "cat/test", "dog/train", "dog/test"})
    pictures(str("d/", name), 3, 10);
  const auto lines = lines_with("are below the classes");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("d/cat/test"), std::string::npos) << lines[0];
  pictures("d/dog/more", 1, 10);
  EXPECT_TRUE(lines_with("are below the classes").empty());
}

TEST_F(ClassSets, NamesTheInnerFolderOfAWrapper) {
  pictures("d/data/cat", 2, 10);
  pictures("d/data/dog", 2, 20);
  refused("images", {"only one class, data",
                     str("Is ", (files / "d/data").string(), " the folder to convert?")});
}

TEST_F(ClassSets, CountsSamplesThatRepeatTrainingSamples) {
  pictures("d/train/a", 3, 10);
  pictures("d/train/b", 4, 20);
  pictures("d/test/b", 4, 22);  // two of them are also in train/b
  EXPECT_EQ(convert("images", options("d")).repeated, 2);
}

TEST_F(ClassSets, RefusesUnexpectedFolders) {
  refused("images", {"no such folder"});
  fs::create_directories(files / "d");
  refused("images",
          {"no subfolders", "one subfolder of JPEG, PNG or WebP pictures for each class"});
  pictures("d/cat", 2, 10);
  refused("images", {"only one class, cat"});
  fs::create_directories(files / "d/dog");
  refused("images", {"class folder", "d/dog is empty"});
  write(files / "d/dog/.hidden", {});
  refused("images", {"d/dog is empty"});
  pictures("d/dog", 2, 50);
  picture("d/stray.png", 1);
  refused("images", {"d/stray.png is next to the class folders"});
  // A file that does not look like a sample is ignored
  fs::rename(files / "d/stray.png", files / "d/LABELS.txt");
  EXPECT_EQ(convert("images", options("d")).kept, 4);
  fs::remove(files / "o.h5");
  pictures("d/train/cat", 1, 10);
  refused("images", {"contains cat, dog next to train", "classes or splits?"});
}

// What a Synology, macOS, Windows, a notebook and a file system leave: beside the classes, in
// splits and in classes.
TEST_F(ClassSets, LeavesOutAndCountsWhatToolsLeave) {
  for (const std::string top : {"d", "d/train"}) {
    fs::remove_all(files / "d");
    pictures(top + "/cat", 3, 10);
    pictures(top + "/dog", 3, 20);
    for (const std::string& in : {std::string("d"), top, top + "/cat", top + "/dog/deep"}) {
      picture(in + "/@eaDir/0.png/SYNOPHOTO_THUMB_M.png", 77);
      picture(in + "/__MACOSX/0.png", 77);
      picture(in + "/.ipynb_checkpoints/0-checkpoint.png", 77);
      fs::create_directories(files / in / "lost+found");
      for (const char* name : {".DS_Store", "Thumbs.db", "._0.png"}) write(files / in / name, {});
    }
    const size_t folders = top == "d" ? 3 : 4;
    const auto lines = lines_with("of tools");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find(str("left out ", 7 * folders, " files and folders of tools: ", folders,
                                " x .DS_Store, ", folders, " x ._*, ", folders,
                                " x .ipynb_checkpoints, ", folders, " x @eaDir, others")),
              std::string::npos)
        << lines[0];
    const auto store = data::open_file(files / "o.h5");
    EXPECT_EQ(store->schema().samples, 6);
    EXPECT_EQ(store->origin().attribute("class_names"), "cat\ndog");
  }
  fs::remove_all(files / "d/train");
  for (const char* name : {"up", "down"}) {
    sequence(str("d/", name, "/0.npy"), 3, 2);
    sequence(str("d/", name, "/@eaDir/0.npy"), 3, 2);
    write(files / "d" / name / "._0.npy", {});
  }
  EXPECT_EQ(lines_with("left out 11 files and folders of tools", "sequence").size(), 1u);
  EXPECT_EQ(data::open_file(files / "o.h5")->schema().samples, 2);
}

TEST_F(ClassSets, FollowsLinksToFolders) {
  pictures("elsewhere", 3, 90);
  pictures("d/cat", 2, 10);
  pictures("d/dog", 6, 50);
  fs::create_directory_symlink("../../elsewhere", files / "d/cat/more");
  fs::create_symlink("self.png", files / "d/dog/self.png");
  EXPECT_EQ(convert("images", options("d")).kept, 11);
  EXPECT_EQ(reasons().size(), 1u);
  EXPECT_TRUE(reasons().contains("dog/self.png"));
  fs::create_directory_symlink("..", files / "d/cat/up");
  fs::remove(files / "o.h5");
  refused("images", {"cat/up is a link to one of its own parent folders"});
}

// For data that evaluate a network: names and order are the network's, and data may lack some
// of them.
TEST_F(ClassSets, TakesGivenClasses) {
  pictures("d/dog", 4, 10);
  pictures("d/ant", 6, 50);
  ConvertOptions o = options("d");
  o.classes = {"dog", "bee", "ant"};
  EXPECT_EQ(convert("images", o).classes,
            (std::vector<std::pair<std::string, int64_t>>{{"dog", 4}, {"bee", 0}, {"ant", 6}}));
  auto store = data::open_file(files / "o.h5");
  EXPECT_EQ(store->origin().attribute("class_names"), "dog\nbee\nant");
  for (int64_t id = 0; id < 10; ++id) {
    EXPECT_EQ(data::read_target_as<int64_t>(*store, id),
              std::vector<int64_t>{store->origin().source(id)[0] == 'd' ? 0 : 2});
  }
  o.split.test_share = 1;
  EXPECT_EQ(convert("images", o).splits, (std::map<std::string, int64_t>{{"test", 10}}));
  o.split.val_share = 0.1;
  expect_error<UsageError>([&] { convert("images", o); }, {"--test-share 1 is not in [0, 1)"});
  o = options("d");
  o.split.test_share = 1;
  expect_error<UsageError>([&] { convert("images", o); }, {"--test-share 1 is not in [0, 1)"});
  o = options("d");
  o.classes = {"dogs", "bee", "ant"};
  expect_error<DataError>(
      [&] { convert("images", o); },
      {"d/dog is none of the classes that --classes gives: dogs, bee, ant. Did you mean dogs?"});
  o.source = files / "no.npz";
  expect_error<UsageError>([&] { convert("pointer", o); },
                           {"--classes applies only to images, sequence and arrays"});
}

constexpr const char* kComposed = "caf\xc3\xa9";     // as Linux and Windows write café
constexpr const char* kDecomposed = "cafe\xcc\x81";  // as macOS does

TEST_F(ClassSets, UnicodeFormsOfANameAreOneClass) {
  pictures(str("d/", kComposed), 3, 10);
  pictures(str("d/", kDecomposed), 2, 20);
  pictures("d/bar", 2, 30);
  const auto lines = lines_with("in another Unicode form");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("U+0063 U+0061 U+0066 U+00E9 for U+0063 U+0061 U+0066 U+0065 U+0301"),
            std::string::npos);
  auto store = data::open_file(files / "o.h5");
  // The bytes of the first
  EXPECT_EQ(store->origin().attribute("class_names"), str("bar\n", kDecomposed));
  fs::remove_all(files / "d");
  pictures(str("d/train/", kComposed), 3, 10);
  pictures("d/train/bar", 3, 20);
  pictures(str("d/test/", kDecomposed), 2, 30);
  EXPECT_EQ(convert("images", options("d")).classes,
            (std::vector<std::pair<std::string, int64_t>>{{"bar", 3}, {kDecomposed, 5}}));
  ConvertOptions o = options("d");
  o.classes = {kComposed, "bar"};
  EXPECT_EQ(convert("images", o).classes,
            (std::vector<std::pair<std::string, int64_t>>{{kComposed, 5}, {"bar", 3}}));
}

TEST_F(ClassSets, ShowsTheCodePointsOfNamesThatLookAlike) {
  pictures("d/train/cat", 3, 10);
  pictures("d/train/dog", 3, 20);
  pictures("d/test/c\xd0\xb0t", 2, 30);  // with a Cyrillic а
  refused(
      "images",
      {"d/train", "It looks like cat, but is U+0063 U+0430 U+0074 and not U+0063 U+0061 U+0074"});
  ConvertOptions o = options("d");
  o.classes = {"cat", "dog"};
  expect_error<DataError>([&] { convert("images", o); },
                          {"It looks like cat, but is U+0063 U+0430 U+0074"});
}

TEST_F(ClassSets, GivenClassesNeedNotBeTrained) {
  pictures("d/train/ant", 2, 10);
  pictures("d/test/bee", 2, 30);
  ConvertOptions o = options("d");
  o.classes = {"ant", "bee", "cat"};
  EXPECT_EQ(convert("images", o).splits,
            (std::map<std::string, int64_t>{{"test", 2}, {"train", 2}}));
  fs::remove_all(files / "d/train");
  EXPECT_EQ(convert("images", o).kept, 2);  // one class is enough
  write(files / "d/test/cat/1.png", {});
  fs::remove(files / "o.h5");
  expect_error<DataError>([&] { convert("images", o); },
                          {"no usable sample of the class cat", "cat/1.png", "empty"});
}

TEST_F(ClassSets, RefusesClassNamesThatAreNotUtf8) {
  pictures("d/cat", 2, 10);
  pictures("d/caf\xe9", 2, 50);
  refused("images", {"not UTF-8"});
}

TEST_F(ClassSets, ATestedClassNeedsTrainingSamples) {
  pictures("d/train/a", 2, 10);
  pictures("d/train/b", 2, 20);
  pictures("d/test/c", 2, 30);
  refused("images", {"the class c is in", "d/test but not in", "d/train"});
  fs::create_directories(files / "d/val/a");
  fs::remove_all(files / "d/test/c");
  pictures("d/test/a", 2, 30);
  refused("images", {"d/val/a is empty"});
  fs::remove_all(files / "d/val");
  picture("d/test/1.png", 1);
  refused("images", {"d/test/1.png is not in a class folder"});
}

TEST_F(ClassSets, QuarantinesFilesThatAreNotPictures) {
  pictures("d/a", 5, 10);
  pictures("d/b", 5, 20);
  const std::string text = "not a picture";
  write(files / "d/a/notes.jpg", std::as_bytes(std::span(text)));
  write(files / "d/a/empty.png", {});
  write(files / "d/b/huge.png", formats::encode_png(plain(1)));
  std::fstream(files / "d/b/huge.png", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(16)
      .write("\x7f\xff\xff\xff", 4);
  const ConvertSummary summary = convert("images", options("d"));
  EXPECT_EQ(summary.kept, 10);
  EXPECT_EQ(reasons().size(), 3u);
  EXPECT_NE(reasons().at("a/notes.jpg").find("not a JPEG, PNG or WebP"), std::string::npos);
  EXPECT_NE(reasons().at("a/empty.png").find("empty"), std::string::npos);
  EXPECT_NE(reasons().at("b/huge.png").find("damaged PNG"), std::string::npos)
      << reasons().at("b/huge.png");
}

TEST_F(ClassSets, NamesAClassWithOnlyDamagedSamples) {
  pictures("d/a", 5, 10);
  write(files / "d/a/0.png", {});
  write(files / "d/b/1.png", {});
  refused("images", {"no usable sample of the class b. The first damaged one: b/1.png: ", "empty",
                     "o.h5.quarantine.json: repair or replace them, or remove the class"});
  pictures("d/train/a", 2, 1);
  fs::remove_all(files / "d/a");
  fs::remove_all(files / "d/b");
  write(files / "d/train/b/1.png", {});
  pictures("d/test/b", 2, 1);
  refused("images", {"no usable sample of the class b is in the training split. The first damaged "
                     "one: train/b/1.png: "});
}

TEST_F(ClassSets, NamesThatDifferOnlyInTheirExtensionAreAmbiguousInLists) {
  pictures("d/a", 2, 10);
  pictures("d/b", 2, 20);
  write(files / "d/a/0.jpg", formats::encode_jpeg(plain(7)));
  ConvertOptions o = options("d");
  std::ofstream(files / "train.txt") << "a/0\nb/0\n";
  o.split.train_list = files / "train.txt";
  expect_error<DataError>([&] { convert("images", o); },
                          {"train.txt:1", "two samples are called a/0"});
  std::ofstream(files / "train.txt") << "a/0.jpg\nb/0\n";
  EXPECT_EQ(convert("images", o).kept, 2);
}

TEST_F(ClassSets, ReportsThePlanFirstAndRefusesWhatDoesNotFit) {
  pictures("d/a", 2, 10);
  pictures("d/b", 2, 20);
  std::vector<ConvertPlan> plans;
  const auto keep = [&](const ConvertPlan& plan) {
    plans.push_back(plan);
    EXPECT_FALSE(fs::exists(files / "o.h5.partial"));
  };
  convert("images", options("d"), {}, keep);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].samples, 4);
  EXPECT_EQ(plans[0].output_bytes, 4 * (8 * 8 * 3 + 8));
  EXPECT_EQ(plans[0].working_bytes, 2 * plans[0].output_bytes + 4 * (56 + 32 + 7))
      << "journal, index and a name";
  EXPECT_GT(plans[0].free_bytes, 0);
  // Enough files that their pictures (48 MiB each, in spool and file) need more space than the
  // disk has.
  const uintmax_t files_for_all =
      fs::space(files.path()).available / (uintmax_t{2} * 4096 * 4096 * 3) + 50;
  for (uintmax_t i = 0; i < files_for_all; ++i) write(files / str("d/a/x", i), {});
  expect_error<OutputError>([&] { convert("images", options("d", 4096)); },
                            {"not enough space", "GiB", "--size"});
  EXPECT_FALSE(fs::exists(files / "o.h5.partial"));
}

TEST_F(ClassSets, ConvertsSequencesOfAnyLength) {
  for (int i = 0; i < 10; ++i) {
    sequence(str("d/up/", i, ".npy"), 3 + i, 4, static_cast<float>(i));
    sequence(str("d/down/", i, ".npy"), 30 + i, 4, static_cast<float>(-i));
  }
  const ConvertSummary summary = convert("sequence", options("d"));
  EXPECT_EQ(summary.kept, 20);
  EXPECT_DOUBLE_EQ(summary.mean_rows, 21);
  const auto store = data::open_file(files / "o.h5");
  store->verify();
  EXPECT_EQ(store->schema().input, (data::Field{data::Element::kFloat32, {data::kVariable, 4}}));
  EXPECT_EQ(store->origin().attribute("class_names"), "down\nup");
  for (int64_t id = 0; id < 20; ++id) {
    const int number = std::stoi(fs::path(store->origin().source(id)).stem());
    const bool up = store->origin().source(id).starts_with("up/");
    EXPECT_EQ(store->input_rows(id), number + (up ? 3 : 30));
    EXPECT_EQ(data::read_input_as<float>(*store, id)[5], static_cast<float>(up ? number : -number));
    EXPECT_EQ(data::read_target_as<int64_t>(*store, id), std::vector<int64_t>{up ? 1 : 0});
  }
}

TEST_F(ClassSets, QuarantinesUnusableSequences) {
  for (int i = 0; i < 5; ++i) {
    sequence(str("d/a/", i, ".npy"), 5, 3);
    sequence(str("d/b/", i, ".npy"), 6, 3);
  }
  sequence("d/a/wide.npy", 5, 4);
  sequence("d/a/nothing.npy", 0, 3);
  sequence("d/b/nan.npy", 5, 3, NAN);
  const std::string object = "\x93NUMPY\x01" + std::string(1, '\0') + "\x40" +
                             std::string(1, '\0') +
                             "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }       \n";
  write(files / "d/b/object.npy", std::as_bytes(std::span(object)));
  write(files / "d/b/readme.txt", std::as_bytes(std::span(object)).subspan(1));
  const ConvertSummary summary = convert("sequence", options("d"));
  EXPECT_EQ(summary.kept, 10);
  const auto why = reasons();
  EXPECT_EQ(why.size(), 5u);
  EXPECT_NE(why.at("a/wide.npy").find("has 4 features per row, the other sequences have 3"),
            std::string::npos);
  EXPECT_NE(why.at("a/nothing.npy").find("length 0"), std::string::npos);
  EXPECT_NE(why.at("b/nan.npy").find("NaN in row 0, feature 0"), std::string::npos);
  EXPECT_NE(why.at("b/object.npy").find("Python objects"), std::string::npos)
      << why.at("b/object.npy");
  EXPECT_NE(why.at("b/readme.txt").find("not a .npy file"), std::string::npos);
}

TEST_F(ClassSets, RefusesSharesThatLeaveNoTrainingSamples) {
  pictures("d/a", 2, 10);
  ConvertOptions o = options("d");
  o.split.val_share = 0.95;
  expect_error<UsageError>([&] { convert("images", o); }, {"--val-share 0.95", "nothing to train"});
  o.split.val_share = -0.1;
  expect_error<UsageError>([&] { convert("images", o); }, {"--val-share -0.1 is not in [0, 1)"});
}

TEST(Photo, KeepsTheMiddleSquareOfTheScaledPicture) {
  formats::Image wide(60, 20);
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 60; ++x)
      std::fill_n(wide.at(x, y), 3, static_cast<uint8_t>(x < 20 ? 0 : x < 40 ? 100 : 200));
  }
  const formats::Image middle = stored_photo(formats::encode_png(wide), 20);
  EXPECT_EQ(middle.rgb, std::vector<uint8_t>(20 * 20 * 3, 100));
  EXPECT_EQ(stored_photo(formats::encode_png(wide), 7).width, 7);
}

}  // namespace
}  // namespace dtrain::convert
