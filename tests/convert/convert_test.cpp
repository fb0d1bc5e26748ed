#include "convert/convert.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <thread>

#include "catalog/catalog.h"
#include "convert/head_pose_set.h"
#include "core/error.h"
#include "core/log.h"
#include "data/hdf5/file_store.h"
#include "data/store.h"
#include "formats/mat_file.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "synth/layouts.h"
#include "synth/scene.h"
#include "synth/synth.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
constexpr int kSize = 32;

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Convert : public ::testing::Test {
 protected:
  ConvertOptions options(const std::string& folder, const std::string& out) const {
    ConvertOptions o;
    o.source = files / folder;
    o.out = files / out;
    o.size = kSize;
    return o;
  }
  void make_300wlp(int64_t samples = 64) const {
    synth::synth("headpose",
                 {.layout = "300wlp", .out = files / "lp", .samples = samples, .size = 80});
  }
  fs::path sample(const std::string& name) const { return files / "lp" / name; }
  std::vector<std::string> files_beginning_with(const std::string& name) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(files.path())) {
      if (entry.path().filename().string().starts_with(name))
        found.push_back(entry.path().filename());
    }
    return found;
  }

  testing::TempDir files;
};

void expect_no_group_on_both_sides(const data::Store& store) {
  std::set<int64_t> train, test;
  for (const int64_t id : store.origin().split("train")) train.insert(store.origin().group(id));
  for (const int64_t id : store.origin().split("test")) test.insert(store.origin().group(id));
  EXPECT_FALSE(train.empty());
  EXPECT_FALSE(test.empty());
  for (const int64_t group : test) EXPECT_EQ(train.count(group), 0u);
}

TEST_F(Convert, LpKeepsTheGeneratedAngles) {
  make_300wlp();
  const ConvertSummary summary = convert("300wlp", options("lp", "lp.h5"));
  EXPECT_EQ(summary.found, 64);
  EXPECT_EQ(summary.kept, 64);
  EXPECT_EQ(summary.groups, 8);
  EXPECT_TRUE(summary.quarantined.empty());
  const auto store = data::open_file(files / "lp.h5");
  store->verify();
  EXPECT_EQ(store->schema().input.shape, (std::vector<int64_t>{kSize, kSize, 3}));
  EXPECT_EQ(store->origin().attribute("target_names"), "yaw,pitch,roll");
  EXPECT_EQ(store->origin().attribute("protocol"),
            "300W-LP: split by source photo, its views and mirror images together");
  EXPECT_EQ(store->origin().split("train").size() + store->origin().split("test").size(), 64u);
  expect_no_group_on_both_sides(*store);
  std::map<std::string, HeadPose> drawn;
  for (int64_t i = 0; i < 64; ++i) {
    const HeadPose pose = synth::draw_pose(1, i / 2);
    drawn[synth::lp_name(i).path() + ".jpg"] = i % 2 ? mirrored(pose) : pose;
  }
  std::map<std::string, int64_t> group_of_photo;
  for (int64_t id = 0; id < 64; ++id) {
    const std::vector<float> target = data::read_target_as<float>(*store, id);
    const HeadPose& pose = drawn.at(store->origin().source(id));
    EXPECT_NEAR(target[0], pose.yaw, 1e-4);
    EXPECT_NEAR(target[1], pose.pitch, 1e-4);
    EXPECT_NEAR(target[2], pose.roll, 1e-4);
    // A photo, its views and their mirrored versions are one group.
    const std::string name = fs::path(store->origin().source(id)).stem().string();
    const auto [entry, fresh] =
        group_of_photo.emplace(name.substr(0, name.rfind('_')), store->origin().group(id));
    EXPECT_EQ(entry->second, store->origin().group(id));
  }
  EXPECT_EQ(group_of_photo.size(), 8u);
  EXPECT_FALSE(fs::exists(files / "lp.h5.partial"));
}

TEST_F(Convert, BiwiKeepsTheGeneratedAngles) {
  synth::synth("headpose",
               {.layout = "biwi", .out = files / "biwi/hpdb", .samples = 60, .size = 96});
  const ConvertSummary summary = convert("biwi", options("biwi", "biwi.h5"));
  EXPECT_EQ(summary.kept, 60);
  EXPECT_EQ(summary.splits.at("test"), 20);  // sequences 03 and 06 of 01 to 06
  const auto store = data::open_file(files / "biwi.h5");
  store->verify();
  expect_no_group_on_both_sides(*store);
  EXPECT_EQ(store->origin().attribute("protocol"), "BIWI: test sequences 03, 06; split by person");
  for (int64_t id = 0; id < 60; ++id) {
    // 03/frame_00007_rgb.png: picture (7 - 3) * 6 + 2
    const std::string name = store->origin().source(id);
    const HeadPose pose = synth::draw_pose(
        1, (std::stoll(name.substr(9, 5)) - 3) * 6 + std::stoll(name.substr(0, 2)) - 1);
    const std::vector<float> target = data::read_target_as<float>(*store, id);
    EXPECT_NEAR(target[0], pose.yaw, 1e-4) << name;
    EXPECT_NEAR(target[1], pose.pitch, 1e-4) << name;
    EXPECT_NEAR(target[2], pose.roll, 1e-4) << name;
  }
}

TEST_F(Convert, BiwiTestsAllSequencesOfAPerson) {
  synth::synth("headpose", {.layout = "biwi", .out = files / "biwi", .samples = 150, .size = 48});
  ConvertOptions o = options("biwi", "biwi.h5");
  o.test_sequences = {"15"};
  EXPECT_EQ(convert("biwi", o).splits.at("test"), 20);  // 03 is the same person
  EXPECT_EQ(data::open_file(o.out)->origin().attribute("protocol"),
            "BIWI: test sequences 03, 15; split by person");
  o.test_sequences = {"23"};
  o.force = true;
  testing::expect_error<DataError>([&] { convert("biwi", o); }, {"test sequence 23", "01, 02"});
}

TEST_F(Convert, TheProtocolNamesTheTestedBiwiSequences) {
  synth::synth("headpose", {.layout = "biwi", .out = files / "biwi", .samples = 60, .size = 48});
  ConvertOptions o = options("biwi", "biwi.h5");
  o.force = true;
  const auto protocol = [&] {
    convert("biwi", o);
    return data::open_file(o.out)->origin().attribute("protocol");
  };
  fs::remove(files / "biwi/03/rgb.cal");  // all of its frames are damaged
  EXPECT_EQ(protocol(), "BIWI: test sequences 06; split by person");
  fs::remove_all(files / "biwi/03");
  // None of the protocol's sequences is left: persons are chosen at random
  fs::remove_all(files / "biwi/06");
  const std::string drawn = protocol();
  std::set<std::string> tested;
  const auto store = data::open_file(o.out);
  for (const int64_t id : store->origin().split("test"))
    tested.insert(store->origin().source(id).substr(0, 2));
  ASSERT_EQ(tested.size(), 1u);
  EXPECT_EQ(drawn, "BIWI: test sequences " + *tested.begin() + "; split by person");
  o.split.test_share = 0;
  EXPECT_EQ(protocol(), "BIWI: no test sequences");
}

// crops of the same pose look alike, wherever the head is in the picture
TEST_F(Convert, TheCropContainsTheHead) {
  const HeadPose pose{20, -10, 5};
  const auto cropped = [&](double x, double y, double scale) {
    formats::Image image(200, 200);
    const synth::ScenePlacement place{.x = x, .y = y, .scale = scale};
    synth::render(synth::head_model({}), pose, place, {}, image);
    return formats::resample(image, landmark_box(synth::landmarks(pose, place), 200, 200), 32, 32);
  };
  const formats::Image a = cropped(100, 100, 40), b = cropped(80, 110, 55);
  double sum = 0, bright = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    sum += std::abs(a.rgb[i] - b.rgb[i]);
    bright += a.rgb[i];
  }
  EXPECT_LT(sum / static_cast<double>(a.rgb.size()), 2);
  EXPECT_GT(bright / static_cast<double>(a.rgb.size()), 40);
}

TEST_F(Convert, Aflw2000IsATestSet) {
  make_300wlp(16);
  fs::rename(files / "lp/AFW", files / "flat");
  formats::Matrices mat = formats::read_mat(files / "flat/AFW_000000_1_0.mat",
                                            {"Pose_Para", "pt2d"});  // as AFLW2000 has it
  mat["pt3d_68"] = mat.at("pt2d");
  mat["pt2d"] = {.rows = 2, .columns = 2, .values = {-1, -1, 5, 6}};
  formats::write_mat(files / "flat/AFW_000000_1_0.mat", mat);
  const ConvertSummary summary = convert("aflw2000", options("flat", "a.h5"));
  EXPECT_EQ(summary.kept, 4);
  EXPECT_EQ(summary.splits, (std::map<std::string, int64_t>{{"test", 4}}));
  EXPECT_EQ(data::open_file(files / "a.h5")->origin().attribute("protocol"),
            "AFLW2000: all samples within ±99 degrees are the test");
}

TEST_F(Convert, LeavesOutAndCountsWhatToolsLeaveInHeadPoseSets) {
  make_300wlp(16);
  synth::synth("headpose", {.layout = "biwi", .out = files / "biwi", .samples = 60, .size = 48});
  for (const char* folder : {"lp/AFW", "biwi/01"}) {
    fs::create_directories(files / folder / "@eaDir/thumbnails");
    fs::create_directories(files / folder / "__MACOSX");
    for (const char* name :
         {"._AFW_000000_1_0.jpg", "._AFW_000000_1_0.mat", "._frame_00003_rgb.png"}) {
      std::ofstream(files / folder / name) << "AppleDouble";
    }
  }
  std::vector<std::string> lines;
  const log::LogTap tap([&](std::string_view line) {
    if (line.find("of tools") != std::string_view::npos) lines.emplace_back(line);
  });
  for (const char* set : {"300wlp", "biwi"}) {
    const ConvertSummary summary =
        convert(set, options(set == std::string("biwi") ? "biwi" : "lp", "t.h5"));
    EXPECT_EQ(summary.found, set == std::string("biwi") ? 60 : 16);
    EXPECT_TRUE(summary.quarantined.empty());
    fs::remove(files / "t.h5");
  }
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    EXPECT_NE(line.find("left out 5 files and folders of tools: 3 x ._*, @eaDir, __MACOSX"),
              std::string::npos)
        << line;
  }
}

TEST_F(Convert, FindsHeadsWhateverTheExtensionOfTheirPicture) {
  make_300wlp(16);
  const auto rename = [&](const std::string& from, const std::string& to) {
    fs::rename(sample(from), sample(to));
  };
  rename("AFW/AFW_000000_1_0.jpg", "AFW/AFW_000000_1_0.JPG");
  rename("AFW/AFW_000000_1_1.jpg", "AFW/AFW_000000_1_1.jpeg");
  rename("AFW/AFW_000000_1_2.mat", "AFW/AFW_000000_1_2.MAT");
  EXPECT_EQ(convert("300wlp", options("lp", "lp.h5")).kept, 16);
  EXPECT_FALSE(fs::exists(files / "lp.h5.quarantine.json"));

  synth::synth("headpose", {.layout = "biwi", .out = files / "biwi", .samples = 20, .size = 48});
  fs::rename(files / "biwi/01/frame_00003_rgb.png", files / "biwi/01/frame_00003_rgb.PNG");
  EXPECT_EQ(convert("biwi", options("biwi", "biwi.h5")).kept, 20);
  EXPECT_FALSE(fs::exists(files / "biwi.h5.quarantine.json"));
}

TEST_F(Convert, QuarantinesBiwiHeadsOutsideOfTheirPicture) {
  synth::synth("headpose", {.layout = "biwi", .out = files / "biwi", .samples = 20, .size = 48});
  std::ofstream(files / "biwi/01/frame_00003_pose.txt") << "1 0 0\n0 1 0\n0 0 1\n\n5000 0 900\n";
  fs::copy_file(files / "biwi/01/frame_00004_rgb.png", files / "biwi/01/frame_00090_rgb.png");
  std::ofstream(files / "biwi/01/frame_00090_pose.txt") << "1 0 0\n0 1 0\n0 0 1\n\n0 -900 900\n";
  EXPECT_EQ(convert("biwi", options("biwi", "biwi.h5")).kept, 19);
  const auto json = nlohmann::json::parse(content(files / "biwi.h5.quarantine.json"));
  ASSERT_EQ(json.at("quarantined").size(), 2u);
  for (const auto& entry : json.at("quarantined")) {
    EXPECT_NE(
        entry.at("reason").get<std::string>().find("outside of the picture of 64 x 48 pixels"),
        std::string::npos)
        << entry.at("reason");
  }
}

TEST_F(Convert, QuarantinesDamageWithNameAndReason) {
  make_300wlp();
  fs::resize_file(sample("AFW/AFW_000000_1_0.jpg"), 500);
  fs::resize_file(sample("AFW/AFW_000000_1_1.mat"), 200);
  fs::remove(sample("AFW/AFW_000000_1_2.mat"));
  fs::remove(sample("AFW/AFW_000000_1_3.jpg"));
  fs::resize_file(sample("AFW_Flip/AFW_000000_1_0.jpg"), uintmax_t{1} << 40);  // a sparse file
  const auto change_pose = [&](const std::string& name, size_t element, double value) {
    formats::Matrices mat = formats::read_mat(sample(name + ".mat"), {"Pose_Para", "pt2d"});
    mat.at("Pose_Para").values[element] = value;
    formats::write_mat(sample(name + ".mat"), mat);
  };
  change_pose("HELEN/HELEN_000001_1_0", 1, std::numeric_limits<double>::quiet_NaN());
  change_pose("HELEN/HELEN_000001_1_1", 1, 100 * std::numbers::pi / 180);
  change_pose("HELEN/HELEN_000001_1_2", 2, -99.5 * std::numbers::pi / 180);
  change_pose("HELEN/HELEN_000001_1_3", 0, 98.9 * std::numbers::pi / 180);
  formats::write_mat(sample("IBUG/IBUG_000002_1_0.mat"),
                     {{"pt2d", {.rows = 2, .columns = 1, .values = {1, 1}}}});
  formats::write_mat(sample("IBUG/IBUG_000002_1_1.mat"),
                     {{"Pose_Para", {.rows = 1, .columns = 3, .values = {0, 0, 0}}}});

  const ConvertSummary summary = convert("300wlp", options("lp", "lp.h5"));
  EXPECT_EQ(summary.beyond_range, 2);
  EXPECT_EQ(summary.kept, 64 - 8 - 2);
  const auto json = nlohmann::json::parse(content(files / "lp.h5.quarantine.json"));
  std::map<std::string, std::string> reasons;
  for (const auto& entry : json.at("quarantined")) reasons[entry.at("name")] = entry.at("reason");
  EXPECT_EQ(reasons.size(), 8u);
  const auto says = [&](const std::string& name, const std::string& part) {
    EXPECT_NE(reasons[name + ".jpg"].find(part), std::string::npos)
        << name << ": " << reasons[name + ".jpg"];
  };
  says("AFW/AFW_000000_1_0", "damaged JPEG");
  says("AFW/AFW_000000_1_1", ".mat");
  says("AFW/AFW_000000_1_2", "no AFW_000000_1_2.mat");
  says("AFW/AFW_000000_1_3", "no picture");
  says("AFW_Flip/AFW_000000_1_0", "1.0 TiB");
  says("HELEN/HELEN_000001_1_0", "NaN");
  says("IBUG/IBUG_000002_1_0", "no Pose_Para");
  says("IBUG/IBUG_000002_1_1", "neither pt2d nor pt3d_68");
  const auto store = data::open_file(files / "lp.h5");
  store->verify();
  EXPECT_EQ(store->origin().attribute("samples_quarantined"), "8");
  for (int64_t id = 0; id < store->schema().samples; ++id)
    EXPECT_EQ(reasons.count(store->origin().source(id)), 0u);
}

TEST_F(Convert, NothingUsableIsAnErrorThatNamesTheExpectedLayout) {
  fs::create_directory(files / "empty");
  testing::expect_error<DataError>([&] { convert("300wlp", options("absent", "o.h5")); },
                                   {"no such folder"});
  testing::expect_error<DataError>([&] { convert("300wlp", options("empty", "o.h5")); },
                                   {"no samples", "AFW, HELEN, IBUG, LFPW", "NAME.mat"});
  testing::expect_error<DataError>([&] { convert("aflw2000", options("empty", "o.h5")); },
                                   {"no samples", "NAME.mat"});
  testing::expect_error<DataError>([&] { convert("biwi", options("empty", "o.h5")); },
                                   {"no samples", "rgb.cal"});
  std::ofstream(files / "empty/HELEN") << "no folder";
  testing::expect_error<DataError>([&] { convert("300wlp", options("empty", "o.h5")); },
                                   {"cannot read the folder", "HELEN", "Not a directory"});
  testing::expect_error<UsageError>([&] { convert("300w", options("empty", "o.h5")); },
                                    {"unknown", "300wlp"});
  make_300wlp(2);
  fs::resize_file(sample("AFW/AFW_000000_1_0.jpg"), 5);
  fs::resize_file(sample("AFW_Flip/AFW_000000_1_0.jpg"), 5);
  testing::expect_error<DataError>([&] { convert("300wlp", options("lp", "o.h5")); },
                                   {"none of the 2 samples", "2 damaged", "AFW/AFW_000000_1_0.jpg",
                                    "quarantine.json: repair or replace them"});
  EXPECT_FALSE(fs::exists(files / "o.h5"));
  EXPECT_FALSE(fs::exists(files / "o.h5.partial"));
}

TEST_F(Convert, KeepsAnExistingFile) {
  make_300wlp(16);
  std::ofstream(files / "o.h5") << "mine";
  testing::expect_error<OutputError>([&] { convert("300wlp", options("lp", "o.h5")); },
                                     {"exists", "--force"});
  EXPECT_EQ(content(files / "o.h5"), "mine");
  // What is wrong with the source is said first: nothing would be written for it.
  testing::expect_error<DataError>([&] { convert("300wlp", options("absent", "o.h5")); },
                                   {"no such folder"});
  ConvertOptions o = options("lp", "o.h5");
  o.force = true;
  EXPECT_EQ(convert("300wlp", o).kept, 16);
  EXPECT_EQ(data::open_file(files / "o.h5")->schema().samples, 16);
}

TEST_F(Convert, ReportsAnUnwritableOutputAtOnce) {
  make_300wlp(2);
  std::ofstream(files / "file") << "not a folder";
  testing::expect_error<OutputError>([&] { convert("300wlp", options("lp", "file/o.h5")); },
                                     {"file"});
}

// Runs a conversion in a child process, which calls _exit (similar to kill -9) as soon as its
// journal has some samples.
int killed_in_the_middle(const ConvertOptions& options) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(120);
    const fs::path journal = options.out.string() + ".partial/journal";
    std::thread([journal] {
      std::error_code not_yet;
      while (true) {
        const auto size = fs::file_size(journal, not_yet);
        if (!not_yet && size > 1000) ::_exit(9);
      }
    }).detach();
    convert("300wlp", options);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Convert, AKilledConversionResumesAndGivesTheSameBytes) {
  make_300wlp(400);
  ConvertOptions o = options("lp", "whole.h5");
  o.size = 160;
  o.threads = 1;
  convert("300wlp", o);
  o.out = files / "resumed.h5";
  ASSERT_EQ(killed_in_the_middle(o), 9) << "the conversion was done before it could be killed";
  EXPECT_TRUE(fs::exists(files / "resumed.h5.partial/journal"));
  EXPECT_FALSE(fs::exists(files / "resumed.h5"));
  std::ofstream(files / "resumed.h5.partial/journal", std::ios::app) << "a part of a record";
  std::string abandoned = temporary_name(files / "resumed.h5").string();
  // Above all processes
  abandoned.replace(abandoned.rfind("tmp") + 3, std::to_string(::getpid()).size(), "4194305");
  std::ofstream(abandoned) << "left by a killed writer";
  o.threads = 3;
  const ConvertSummary summary = convert("300wlp", o);
  EXPECT_GT(summary.resumed, 0);
  EXPECT_LT(summary.resumed, 400);
  EXPECT_EQ(summary.kept, 400);
  EXPECT_TRUE(content(files / "resumed.h5") == content(files / "whole.h5"));
  EXPECT_FALSE(fs::exists(files / "resumed.h5.partial"));
  EXPECT_FALSE(fs::exists(abandoned));
}

TEST_F(Convert, AnExceptionFromProgressStopsItAndKeepsTheSpool) {
  make_300wlp(16);
  struct Stop {};
  EXPECT_THROW(convert("300wlp", options("lp", "o.h5"), [](const Progress&) { throw Stop{}; }),
               Stop);
  EXPECT_FALSE(fs::exists(files / "o.h5"));
  EXPECT_EQ(convert("300wlp", options("lp", "o.h5")).resumed, 16);
}

TEST_F(Convert, ReadsAChangedFileAgain) {
  make_300wlp(16);
  convert("300wlp", options("lp", "whole.h5"));
  struct Stop {};
  EXPECT_THROW(convert("300wlp", options("lp", "o.h5"), [](const Progress&) { throw Stop{}; }),
               Stop);
  const fs::path one = files / "lp" / data::open_file(files / "whole.h5")->origin().source(3);
  fs::copy_file(one, files / "copy");
  fs::rename(files / "copy", one);  // the same bytes with another time
  EXPECT_EQ(convert("300wlp", options("lp", "o.h5")).resumed, 15);
  EXPECT_TRUE(content(files / "o.h5") == content(files / "whole.h5"));
}

TEST_F(Convert, ResumesWhenStoppedWhileWriting) {
  make_300wlp(16);
  struct Stop {};
  const auto stop = [](const Progress& progress) {
    if (progress.stage == std::string("writing")) throw Stop{};
  };
  EXPECT_THROW(convert("300wlp", options("lp", "o.h5"), stop), Stop);
  EXPECT_EQ(files_beginning_with("o.h5"), std::vector<std::string>{"o.h5.partial"});
  EXPECT_EQ(convert("300wlp", options("lp", "o.h5")).resumed, 16);
  EXPECT_EQ(files_beginning_with("o.h5"), std::vector<std::string>{"o.h5"});
}

TEST_F(Convert, LeavesNothingIfNoSampleIsFinished) {
  make_300wlp(2);
  for (const auto& entry : fs::recursive_directory_iterator(files / "lp")) {
    if (entry.is_regular_file()) fs::resize_file(entry.path(), 5);
  }
  struct Stop {};
  EXPECT_THROW(convert("300wlp", options("lp", "o.h5"), [](const Progress&) { throw Stop{}; }),
               Stop);
  EXPECT_EQ(files_beginning_with("o.h5"), std::vector<std::string>());
}

TEST_F(Convert, AFullDiskKeepsFinishedSamples) {
  make_300wlp(32);
  const ConvertOptions o = options("lp", "o.h5");
  const pid_t child = ::fork();
  if (child == 0) {  // files are limited to 20 pictures, so that writing fails as on a full disk
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 20 * (kSize * kSize * 3 + 12), .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ConvertOptions narrow = o;
    narrow.threads = 1;
    try {
      convert("300wlp", narrow);
    } catch (const OutputError& error) {
      const bool said =
          std::string(error.what()).find("the finished samples are kept") != std::string::npos;
      ::_exit(said ? 73 : 1);
    } catch (...) {
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 73);
  const ConvertSummary summary = convert("300wlp", o);
  EXPECT_EQ(summary.resumed, 20);
  EXPECT_EQ(summary.kept, 32);
}

TEST_F(Convert, ListsSelectTheSamples) {
  make_300wlp(32);
  std::ofstream(files / "train.txt") << "AFW/AFW_000000_1_0\nHELEN/HELEN_000001_1_1\n";
  std::ofstream(files / "test.txt") << "LFPW/LFPW_000003_1_0\nAFW_Flip/AFW_000000_1_0\n";
  ConvertOptions o = options("lp", "o.h5");
  o.split.train_list = files / "train.txt";
  o.split.test_list = files / "test.txt";
  const ConvertSummary summary = convert("300wlp", o);
  EXPECT_EQ(summary.kept, 4);
  EXPECT_EQ(summary.unlisted, 28);
  EXPECT_EQ(summary.splits, (std::map<std::string, int64_t>{{"test", 2}, {"train", 2}}));
  EXPECT_EQ(summary.straddling.groups, 1);
  EXPECT_EQ(summary.straddling.first, "AFW/AFW_000000_1");
  EXPECT_EQ(data::open_file(files / "o.h5")->origin().attribute("protocol"),
            "splits by the lists given");
}

// Each entry of the table of data sets says which options it takes; messages name these data sets.
TEST(CheckOptions, MessagesNameTheDataSetsThatTakeAnOption) {
  ConvertOptions sequences, folders, classes, task;
  sequences.test_sequences = {"03"};
  folders.splits_from_folders = false;
  classes.classes = {"a", "b"};
  task.task = "module";
  const std::vector<std::pair<std::string, ConvertOptions>> all = {
      {"--test-sequences applies only to biwi", sequences},
      {"--splits-from-folders applies only to images and sequence", folders},
      {"--classes applies only to images, sequence and arrays", classes},
      {"--task applies only to arrays", task}};
  for (const auto& [message, options] : all) {
    for (const std::string& name : catalog::data_set_names()) {
      const bool takes = message.find(" " + name) != std::string::npos;
      try {
        check_options(name, options);
        ADD_FAILURE() << "no source is given";
      } catch (const UsageError& error) {
        EXPECT_EQ(error.what(), message + ", not to " + name);
        EXPECT_FALSE(takes) << name << ": " << message;
      } catch (const DataError&) {  // no such source, which is looked for last
        EXPECT_TRUE(takes) << name << ": " << message;
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::convert
