// What a conversion costs for each sample, in counts that do not depend on the load of the machine:
// bytes held at once, allocations, calls of the system.

#include <gtest/gtest.h>

#include "convert/convert.h"
#include "convert/sample_list.h"
#include "formats/npz.h"
#include "support/count_allocations.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

constexpr int64_t kFeatures = 32;

void write_rows(const std::filesystem::path& file, int64_t samples) {
  std::vector<float> inputs(static_cast<size_t>(samples * kFeatures));
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i);
  std::vector<int64_t> groups(static_cast<size_t>(samples));
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int64_t>(i / 3);
  const std::vector<float> targets(groups.size());
  formats::write_npz(file, {{"inputs", formats::to_npy(inputs, {samples, kFeatures})},
                            {"targets", formats::to_npy(targets, {samples})},
                            {"group", formats::to_npy(groups, {samples})}});
}

struct Cost {
  double bytes = 0, allocations = 0, file_calls = 0;
};

Cost cost_of_arrays(const testing::TempDir& folder, int64_t samples) {
  write_rows(folder / "a.npz", samples);
  ConvertOptions options;
  options.source = folder / "a.npz";
  options.out = folder / "o.h5";
  options.threads = 2;
  options.force = true;
  const int64_t allocations = testing::allocations_of_process(),
                calls = testing::file_calls_of_process();
  Cost cost;
  cost.bytes = static_cast<double>(
      testing::peak_bytes_of([&] { EXPECT_EQ(convert("arrays", options).kept, samples); }));
  cost.allocations = static_cast<double>(testing::allocations_of_process() - allocations);
  cost.file_calls = static_cast<double>(testing::file_calls_of_process() - calls);
  return cost;
}

// The arrays are larger than what is kept of them in memory. Groups are numbered, which takes more
// than none.
TEST(ConvertCost, MemoryGrowsByAFewBytesForEachSample) {
  const testing::TempDir folder;
  constexpr int64_t kFew = 150'000, kMany = 300'000;
  const Cost few = cost_of_arrays(folder, kFew), many = cost_of_arrays(folder, kMany);
  const double bytes = (many.bytes - few.bytes) / static_cast<double>(kMany - kFew);
  std::cout << "bytes for each further sample: " << bytes << "; at " << kMany
            << " samples: " << many.bytes
            << " bytes, allocations a sample: " << many.allocations / kMany
            << ", calls a sample: " << many.file_calls / kMany << "\n";
  EXPECT_LT(bytes, 32);  // 6 at the end, and vectors that grow
  EXPECT_LT(many.bytes, 64 << 20);
  EXPECT_LT(many.allocations / kMany, 30);
  EXPECT_NEAR(many.allocations / kMany, few.allocations / kFew, 1) << "the time is linear";
  EXPECT_LT(many.file_calls / kMany, 0.05);
}

TEST(ConvertCost, AListOfFilesTakesLittleMoreThanTheirNames) {
  constexpr int64_t kSamples = 200'000;
  SampleList list;
  const int64_t bytes = testing::peak_bytes_of([&] {
    for (int64_t i = 0; i < kSamples; ++i) {
      const std::string name = str("train/class_", i % 10, "/", 1'000'000 + i, ".jpg");
      list.push_back({.name = name, .group = name, .label = i % 10, .split = "train"});
    }
    list.sort_by_name();
  });
  const double names = static_cast<double>(list.name(0).size() * kSamples);
  std::cout << "bytes a sample: " << static_cast<double>(bytes) / kSamples
            << ", of which names: " << names / kSamples << "\n";
  // 12 at the end, and vectors that grow
  EXPECT_LT(static_cast<double>(bytes), names + 48.0 * kSamples);
}

}  // namespace
}  // namespace dtrain::convert
