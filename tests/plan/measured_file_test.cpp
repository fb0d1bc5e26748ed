// What `dtrain bench step --json` writes, read as a measured run; tests/e2e/plan_test.py reads what
// it really wrote.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "plan/measured_run.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::plan {
namespace {

using Json = nlohmann::ordered_json;
using dtrain::testing::expect_error;

Json row(int64_t batch_size, double seconds) {
  return {{"batch_size", batch_size},
          {"out_of_memory", ""},
          {"step_seconds", 4 * seconds},
          {"phase_seconds",
           {{"data_wait", 0.1 * seconds},
            {"h2d", 0.0},
            {"forward", seconds},
            {"backward", 2 * seconds},
            {"optimizer", 0.5}}},
          {"other_seconds", 0.01},
          {"load_seconds", 0.2},
          {"deviation_seconds", 0.4},
          {"memory_bytes",
           {{"weights", 10},
            {"gradients", 11},
            {"moments", 20},
            {"average", 0},
            {"activations", 100},
            {"batch", 7}}}};
}

Json file() {
  return {
      {"network", "resnet18"},
      {"precision", "bf16"},
      {"device", "cuda:0"},
      {"data", "d.h5"},
      {"ranks", 2},
      {"samples", 5000},
      {"prefetch", 4},
      {"accumulate", 4},
      {"gradient_buckets", {{{"bytes", 1000}, {"ready", 0.25}}, {{"bytes", 10}, {"ready", 1.0}}}},
      {"statistics_bytes", {24, 16}},
      {"rows", {row(32, 2), row(8, 1)}}};
}

class MeasuredFile : public ::testing::Test {
 protected:
  MeasuredRun read(const std::string& text) {
    std::ofstream(path) << text;
    return read_measured_run(path);
  }
  dtrain::testing::TempDir folder;
  std::filesystem::path path = folder / "step.json";
};

TEST_F(MeasuredFile, IsReadPerMicroStep) {
  const MeasuredRun run = read(file().dump());
  EXPECT_EQ(run.network, "resnet18");
  EXPECT_TRUE(run.on_gpu());
  EXPECT_EQ(run.samples, 5000);
  ASSERT_EQ(run.batches.size(), 2u);
  EXPECT_EQ(run.batches[0].samples, 8) << "by size";
  EXPECT_DOUBLE_EQ(run.batches[1].forward, 0.5);
  EXPECT_DOUBLE_EQ(run.batches[1].optimizer, 0.5) << "once per step";
  EXPECT_DOUBLE_EQ(run.batches[1].step, 8);
  EXPECT_DOUBLE_EQ(run.batches[1].deviation, 0.2);
  EXPECT_EQ(run.batches[0].memory.activations, 100);
  ASSERT_EQ(run.buckets.size(), 2u);
  EXPECT_EQ(run.buckets[0].ready, 0.25);
  EXPECT_EQ(run.statistics, (std::vector<double>{24, 16}));
}

TEST_F(MeasuredFile, RowsWithoutMemoryAreLeftOut) {
  Json json = file();
  json["rows"].push_back({{"batch_size", 64}, {"out_of_memory", "full"}});
  const MeasuredRun run = read(json.dump());
  EXPECT_EQ(run.batches.size(), 2u);
  EXPECT_EQ(run.too_large, (std::vector<std::pair<int64_t, std::string>>{{64, "full"}}));
  json["rows"] = Json::array({json["rows"][2]});
  expect_error<DataError>([&] { read(json.dump()); }, {"no row that was measured"});
}

TEST_F(MeasuredFile, WhatIsWrongIsNamedWithItsPlace) {
  const auto with = [&](const std::function<void(Json&)>& change) {
    Json json = file();
    change(json);
    return json.dump();
  };
  expect_error<DataError>([&] { read(with([](Json& j) { j.erase("network"); })); },
                          {"step.json has no 'network'", "bench step --json"});
  expect_error<DataError>([&] { read(with([](Json& j) { j["ranks"] = 0; })); }, {"'ranks'"});
  expect_error<DataError>([&] { read(with([](Json& j) { j["ranks"] = 1.5; })); }, {"whole number"});
  expect_error<DataError>([&] { read(with([](Json& j) { j["prefetch"] = 9e15; })); },
                          {"'prefetch'", "1024"});
  expect_error<DataError>([&] { read(with([](Json& j) { j["rows"] = 5; })); },
                          {"'rows' is no list"});
  expect_error<DataError>(
      [&] { read(with([](Json& j) { j["rows"][1]["phase_seconds"]["forward"] = -1; })); },
      {"rows[1].phase_seconds", "'forward'"});
  expect_error<DataError>([&] { read(with([](Json& j) { j["rows"][0]["batch_size"] = 8; })); },
                          {"twice"});
  expect_error<DataError>(
      [&] { read(with([](Json& j) { j["gradient_buckets"] = Json::array(); })); },
      {"no gradient buckets"});
  expect_error<DataError>(
      [&] { read(with([](Json& j) { j["gradient_buckets"][0]["ready"] = 1.5; })); },
      {"gradient_buckets[0]", "'ready'"});
  expect_error<DataError>([&] { read(with([](Json& j) { j["statistics_bytes"] = {"x"}; })); },
                          {"statistics_bytes[0]"});
  for (const char* text : {"", "{", "[]", "3", "null"}) EXPECT_THROW(read(text), DataError) << text;
  expect_error<DataError>([&] { read_measured_run(folder / "none.json"); },
                          {"none.json", "is not there"});
  EXPECT_THROW(read_measured_run(folder.path()), DataError);
}

}  // namespace
}  // namespace dtrain::plan
