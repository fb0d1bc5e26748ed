#pragma once

// Small snapshots, different for each step and in each part.

#include <gtest/gtest.h>

#include "checkpoint/store.h"

namespace dtrain::testing {

inline checkpoint::Snapshot snapshot_of(int64_t step, int world_size = 2) {
  const auto value = static_cast<double>(step);
  checkpoint::Snapshot snapshot;
  snapshot.step = step;
  snapshot.world_size = world_size;
  snapshot.model = {{"conv.weight", at::full({2, 3, 2, 2}, value, at::kFloat)},
                    {"bn.num_batches_tracked", at::full({}, step, at::kLong)}};
  snapshot.model_metadata = {{"network", "headpose_cnn"}, {"step", std::to_string(step)}};
  snapshot.optimizer = {{"conv.weight.exp_avg", at::full({2, 3, 2, 2}, value / 2, at::kDouble)}};
  snapshot.state_json = "{\"step\": " + std::to_string(step) + "}";
  for (int rank = 0; rank < world_size; ++rank) {
    snapshot.ranks.push_back({{"cpu_generator", at::full({16}, (step + rank) % 251, at::kByte)}});
  }
  return snapshot;
}

inline void expect_equal(const checkpoint::NamedTensors& a, const checkpoint::NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.scalar_type(), b[i].second.scalar_type()) << a[i].first;
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

inline void expect_equal(const checkpoint::Snapshot& a, const checkpoint::Snapshot& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.world_size, b.world_size);
  EXPECT_EQ(a.model_metadata, b.model_metadata);
  EXPECT_EQ(a.state_json, b.state_json);
  expect_equal(a.model, b.model);
  expect_equal(a.optimizer, b.optimizer);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) expect_equal(a.ranks[rank], b.ranks[rank]);
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dtrain::testing
