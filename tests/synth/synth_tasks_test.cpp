// Generated data for the tasks classify, pointer and sequence.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "convert/convert.h"
#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "synth/class_scene.h"
#include "synth/dynamics.h"
#include "synth/pointer_rule.h"
#include "synth/synth.h"

namespace dtrain::synth {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Case {
  const char *task, *layout, *raw, *converter;
};

class SynthTasks : public ::testing::TestWithParam<Case> {};

TEST_P(SynthTasks, ConvertingTheRawLayoutGivesTheHdf5Layout) {
  const auto [task, layout, raw, converter] = GetParam();
  const testing::TempDir files;
  const SynthSummary drawn =
      synth(task, {.out = files / "a.h5", .samples = 120, .size = 24, .threads = 1});
  synth(task, {.layout = layout, .out = files / raw, .samples = 120, .size = 24, .threads = 3});
  convert::ConvertOptions o;
  o.source = files / raw;
  o.out = files / "b.h5";
  o.size = 24;
  EXPECT_EQ(convert::convert(converter, o).splits, drawn.splits);
  const auto a = data::open_file(files / "a.h5"), b = data::open_file(files / "b.h5");
  a->verify();
  EXPECT_EQ(a->schema().samples, 120);
  EXPECT_EQ(a->schema().checksum, b->schema().checksum);
  EXPECT_EQ(a->origin().attribute("class_names"), b->origin().attribute("class_names"));
  for (const char* split : {"train", "val", "test"}) {
    EXPECT_EQ(a->origin().split(split), b->origin().split(split));
    EXPECT_FALSE(a->origin().split(split).empty());
  }
}

TEST_P(SynthTasks, LeavesNothingWhenStopped) {
  const auto [task, layout, raw, converter] = GetParam();
  const testing::TempDir files;
  struct Stop {};
  const auto stop = [](const Progress&) { throw Stop{}; };
  EXPECT_THROW(synth(task, {.out = files / "a.h5", .samples = 40, .size = 16}, stop), Stop);
  EXPECT_THROW(synth(task, {.layout = layout, .out = files / raw, .samples = 40, .size = 16}, stop),
               Stop);
  EXPECT_TRUE(fs::is_empty(files.path()));
  fs::create_directory(files / "mine");
  if (std::string(layout) == "npz") return;
  EXPECT_THROW(
      synth(task, {.layout = layout, .out = files / "mine", .samples = 40, .size = 16}, stop),
      Stop);
  EXPECT_TRUE(fs::is_empty(files / "mine"));
}

TEST_P(SynthTasks, EqualOptionsGiveEqualFiles) {
  const auto [task, layout, raw, converter] = GetParam();
  const testing::TempDir files;
  synth(task, {.out = files / "a.h5", .samples = 40, .size = 16, .threads = 1});
  synth(task, {.out = files / "b.h5", .samples = 40, .size = 16, .threads = 3});
  synth(task, {.out = files / "c.h5", .samples = 40, .size = 16, .seed = 2});
  if (std::string(task) != "pointer") {
    EXPECT_EQ(content(files / "a.h5"), content(files / "b.h5"));
  }
  EXPECT_EQ(data::open_file(files / "a.h5")->schema().checksum,
            data::open_file(files / "b.h5")->schema().checksum);
  EXPECT_NE(data::open_file(files / "a.h5")->schema().checksum,
            data::open_file(files / "c.h5")->schema().checksum);
}

INSTANTIATE_TEST_SUITE_P(All, SynthTasks,
                         ::testing::Values(Case{"classify", "images", "raw", "images"},
                                           Case{"pointer", "npz", "raw.npz", "pointer"},
                                           Case{"sequence", "npy", "raw", "sequence"}),
                         [](const auto& info) { return std::string(info.param.task); });

TEST(ClassScene, TheMeanColorDoesNotDetermineTheClass) {
  std::vector<double> mean(10), square(10);
  constexpr int kEach = 100;
  for (int64_t c = 0; c < 10; ++c) {
    for (int i = 0; i < kEach; ++i) {
      double sum = 0;
      const formats::Image image = draw_class_scene(1, c * kEach + i, c, 24);
      for (const uint8_t value : image.rgb) sum += value;
      sum /= static_cast<double>(image.rgb.size());
      mean[static_cast<size_t>(c)] += sum / kEach;
      square[static_cast<size_t>(c)] += sum * sum / kEach;
    }
  }
  for (size_t c = 0; c < 10;
       ++c) {  // classes differ by less than half of the deviation within a class
    const double deviation = std::sqrt(square[c] - mean[c] * mean[c]);
    for (size_t d = 0; d < 10; ++d)
      EXPECT_LT(std::abs(mean[c] - mean[d]), deviation / 2) << c << ' ' << d;
  }
}

TEST(ClassScene, ClassesAreSortedAndDrawnDifferently) {
  EXPECT_TRUE(std::is_sorted(scene_classes().begin(), scene_classes().end()));
  std::set<std::vector<uint8_t>> drawn;
  for (int64_t c = 0; c < 10; ++c) drawn.insert(draw_class_scene(1, 7, c, 32).rgb);
  EXPECT_EQ(drawn.size(), 10u);
}

TEST(PointerRule, SortsByFeature0ThenFeature1InTheDirectionOfTheSet) {
  const auto element = [](float a, float b, float c) {
    return std::vector<float>{a, b, c, 9, 9, 9, 9, 0};
  };
  const auto set = [&](float direction) {
    std::vector<float> all;
    for (const auto& e : {element(0.5f, 0.9f, direction), element(0.1f, 0.2f, direction),
                          element(0.5f, 0.3f, direction)}) {
      all.insert(all.end(), e.begin(), e.end());
    }
    return all;
  };
  EXPECT_EQ(pointer_order(set(0.1f)), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(pointer_order(set(0.9f)), (std::vector<int64_t>{0, 2, 1}));
}

TEST(PointerRule, DrawsAllLengthsTiesAndBothDirections) {
  std::map<int64_t, int> lengths;
  int ties = 0, ascending = 0, in_place = 0, elements = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const PointerSet set = draw_pointer_set(1, i, 10);
    const auto n = static_cast<int64_t>(set.order.size());
    ++lengths[n];
    const auto at = [&](int64_t k, int64_t f) {
      return set.features[static_cast<size_t>(set.order[static_cast<size_t>(k)] * 8 + f)];
    };
    ascending += at(0, 0) < at(n - 1, 0);
    for (int64_t k = 0; k < n; ++k) {
      EXPECT_EQ(at(k, 7), 0);
      if (k > 0) ties += at(k, 0) == at(k - 1, 0);
      in_place += set.order[static_cast<size_t>(k)] == k;
      ++elements;
    }
  }
  EXPECT_EQ(lengths.size(), 8u);
  EXPECT_EQ(lengths.begin()->first, 3);
  EXPECT_EQ(lengths.rbegin()->first, 10);
  EXPECT_GT(ties, 1000);
  EXPECT_NEAR(ascending, 1000, 100);
  // Expected by chance: 1 / n, where n is 6.5 on average
  EXPECT_NEAR(static_cast<double>(in_place) / elements, 1 / 6.5, 0.05);
  EXPECT_EQ(draw_pointer_set(1, 5, 60).features, draw_pointer_set(1, 5, 60).features);
}

TEST(Dynamics, ChannelsAreStandardized) {
  for (int64_t c = 0; c < static_cast<int64_t>(dynamics_classes().size()); ++c) {
    const std::vector<float> values = draw_dynamics(1, 3 + c, c);
    const auto rows = static_cast<int64_t>(values.size()) / kDynamicsChannels;
    EXPECT_GE(rows, kShortestSequence);
    EXPECT_LE(rows, kLongestSequence);
    for (int64_t f = 0; f < kDynamicsChannels; ++f) {
      double sum = 0, squares = 0;
      for (int64_t t = 0; t < rows; ++t) {
        const double value = values[static_cast<size_t>(t * kDynamicsChannels + f)];
        sum += value;
        squares += value * value;
      }
      EXPECT_NEAR(sum / static_cast<double>(rows), 0, 1e-4);
      EXPECT_NEAR(squares / static_cast<double>(rows), 1, 1e-4);
    }
  }
  EXPECT_TRUE(std::is_sorted(dynamics_classes().begin(), dynamics_classes().end()));
}

TEST(Synth, UnknownNamesSuggestTheNearest) {
  const testing::TempDir files;
  const auto refused = [&](const std::string& task, const SynthOptions& options,
                           const std::vector<std::string>& parts) {
    testing::expect_error<UsageError>([&] { synth(task, options); }, parts);
  };
  refused("classfy", {.out = files / "x"},
          {"unknown task classfy", "Did you mean classify?", "pointer"});
  refused("pointer", {.layout = "npy", .out = files / "x"},
          {"unknown layout npy of pointer", "Did you mean npz?"});
  refused("pointer", {.out = files / "x", .max_length = 2}, {"--max-length 2"});
}

}  // namespace
}  // namespace dtrain::synth
