// The config that tune writes: it loads again, and trains what was asked for with what was found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/patch.h"
#include "tune/tune_report.h"

namespace dtrain::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Tuned {
  config::Loaded loaded;
  TuneResult result;
};

Tuned tuned(const std::vector<std::string>& arguments) {
  Tuned t{config::load(arguments, "/nonexistent", {.other_flags = {}, .check_dataset = false}), {}};
  const TunedSettings given{.batch_size = 32, .workers = 1, .prefetch = 4};
  t.result.run.loaded = t.loaded;
  t.result.run.loaded.config.train.accumulate = 0;
  t.result.run.device = "cpu";
  t.result.run.batches = {.ranks = 2, .global_batch = 256, .samples = 1000, .given = 32};
  t.result.run.given = given;
  t.result.found.settings = {.batch_size = 64,
                             .amp = config::AmpMode::kBf16,
                             .channels_last = false,
                             .workers = 2,
                             .prefetch = 2};
  t.result.found.given_rate = Spread{.median = 400, .low = 390, .high = 410, .count = 3};
  t.result.found.found_rate = Spread{.median = 500, .low = 490, .high = 510, .count = 3};
  return t;
}

TEST(Patch, LoadsAgainAndKeepsTheGlobalBatch) {
  const Tuned t = tuned({"--data.file", "d.h5", "--optimizer.lr", "0.004", "--accumulate", "4",
                         "--epochs", "7", "--name", "mine"});
  const std::string text = patch_text(t.result, t.loaded, "dtrain tune");
  const config::Config config = config::from_yaml(text, "patch");
  EXPECT_EQ(config.train.batch_size, 64);
  EXPECT_EQ(config.train.global_batch, 256);
  EXPECT_EQ(config.train.accumulate, 0) << "it follows from both";
  EXPECT_EQ(config.train.amp, config::AmpMode::kBf16);
  EXPECT_FALSE(config.model.channels_last);
  EXPECT_EQ(config.data.workers, 2);
  EXPECT_EQ(config.data.prefetch, 2);
  EXPECT_EQ(config.data.file, "d.h5");
  EXPECT_EQ(config.optimizer.lr, 0.004);
  EXPECT_EQ(config.train.epochs, 7);
  EXPECT_EQ(config.run.name, "mine");
  EXPECT_THAT(text, HasSubstr("tuned: was 32"));
  EXPECT_THAT(text, HasSubstr("500.0 samples/s in place of 400.0 (+25.0 %)"));
  EXPECT_THAT(text, Not(HasSubstr("weight_decay"))) << "defaults stay defaults";
}

TEST(CatalogRow, IsPrintedWhereTheLimitOfACardOfTheTableWasFound) {
  Tuned t = tuned({"--data.file", "d.h5", "--model.name", "resnet50", "--model.image_size", "224"});
  t.result.found.card = "h100";
  t.result.found.start = "starts from an estimate for h100: a batch of 48";
  t.result.found.largest = {
      .batch = 96, .end = LargestBatch::End::kLimit, .trials = {{.batch = 96, .fits = true}}};
  const char* row =
      R"({.network = "resnet50", .image_size = 224, .half = true, .checkpointing = false,)"
      R"( .batch_size = 96})";
  EXPECT_EQ(catalog_row(t.result), row);
  const std::string text = text_of(t.result, "x.yaml");
  EXPECT_THAT(text,
              HasSubstr(std::string("for `measured` of h100 in src/catalog/gpus.cpp: ") + row));
  EXPECT_THAT(text,
              HasSubstr("the search for it starts from an estimate for h100: a batch of 48\n"));
  t.result.found.largest.end = LargestBatch::End::kMost;
  EXPECT_EQ(catalog_row(t.result), "") << "the card may have room for more";
  t.result.found.largest.end = LargestBatch::End::kLimit;
  t.result.found.card = "";
  t.result.found.start = "";
  EXPECT_EQ(catalog_row(t.result), "");
  EXPECT_THAT(text_of(t.result, "x.yaml"), Not(HasSubstr("the search"))) << "a CPU";
}

TEST(Patch, HasTheSuggestedRateAndAFreeGlobalBatch) {
  Tuned t = tuned({"--data.file", "d.h5"});
  t.result.found.range_test = RangeTest{.rates = {1e-4, 1e-3}, .losses = {1, 2}, .given = 1e-3};
  EXPECT_THAT(patch_text(t.result, t.loaded, "dtrain tune"), Not(HasSubstr("lr:")))
      << "no suggestion";
  t.result.found.range_test->suggestion =
      RateSuggestion{.rate = 0.0125, .lowest = 0.1, .fall = 0.4};
  t.result.run.batches.keeps_global_batch = false;
  const std::string text = patch_text(t.result, t.loaded, "dtrain tune");
  const config::Config config = config::from_yaml(text, "patch");
  EXPECT_EQ(config.optimizer.lr, 0.0125);
  EXPECT_EQ(config.train.global_batch, 128);
  EXPECT_THAT(text, HasSubstr("optimizer.lr was tested with it"));
  EXPECT_THAT(text_of(t.result, ""), Not(HasSubstr("linear scaling")))
      << "the rate is already that of this batch";
  t.result.found.range_test.reset();
  EXPECT_THAT(patch_text(t.result, t.loaded, "dtrain tune"),
              HasSubstr("optimizer.lr may have to change"));
  EXPECT_THAT(text_of(t.result, ""), HasSubstr("linear scaling suggests --lr 0.0005"));
}

TEST(TuneResult, WithoutAnythingBetterAFreeGlobalBatchStays) {
  Tuned t = tuned({"--data.file", "d.h5"});
  t.result.run.batches.keeps_global_batch = false;
  EXPECT_EQ(t.result.run.batches.accumulate_of(32), 4) << "as the run does it";
  EXPECT_EQ(t.result.run.batches.accumulate_of(64), 1);
  t.result.found.settings = t.result.run.given;
  EXPECT_EQ(t.result.found_global_batch(), 256);
  EXPECT_EQ(
      config::from_yaml(patch_text(t.result, t.loaded, "dtrain tune"), "patch").train.global_batch,
      256);
  EXPECT_THAT(text_of(t.result, ""), Not(HasSubstr("in place of")));
}

TEST(TuneResult, CutsTheShareOfARankAsARunDoes) {
  Tuned t = tuned({"--data.file", "d.h5"});
  t.result.run.batches.global_batch = 128;  // 64 on each rank
  const auto expect = [&](int64_t batch_size, int64_t accumulate, int64_t micro_batch) {
    EXPECT_EQ(t.result.run.batches.accumulate_of(batch_size), accumulate) << batch_size;
    EXPECT_EQ(t.result.run.batches.micro_batch_of(batch_size), micro_batch) << batch_size;
    EXPECT_EQ(t.result.run.batches.step_samples_of(batch_size), 128) << batch_size;
  };
  expect(64, 1, 64);
  expect(48, 2, 32);
  expect(32, 2, 32);
  expect(30, 3, 22);
  t.result.run.batches.samples = 100;  // fewer than the global batch
  EXPECT_EQ(t.result.run.batches.micro_batch_of(64), 50);
  EXPECT_EQ(t.result.run.batches.step_samples_of(64), 100);
  t.result.run.batches.samples = 1000;
  t.result.run.batches.keeps_global_batch = false;
  EXPECT_EQ(t.result.run.batches.micro_batch_of(48), 48);
  EXPECT_EQ(t.result.run.batches.step_samples_of(48), 96);
}

TEST(Patch, HasTheWireOnlyIfItChanged) {
  Tuned t = tuned({"--data.file", "d.h5"});
  EXPECT_THAT(patch_text(t.result, t.loaded, "dtrain tune"), Not(HasSubstr("wire")));
  t.result.found.settings.wire = config::Wire::kBf16;
  const std::string text = patch_text(t.result, t.loaded, "dtrain tune");
  EXPECT_EQ(config::from_yaml(text, "patch").dist.wire, config::Wire::kBf16);
  EXPECT_THAT(text, HasSubstr("tuned: was fp32"));
}

TEST(Patch, HasNoKeyThatDoesNothing) {
  const Tuned t = tuned({"--data.file", "d.h5", "--task", "pointer"});
  const std::string text = patch_text(t.result, t.loaded, "dtrain tune");
  EXPECT_THAT(text, Not(HasSubstr("channels_last")));
  EXPECT_EQ(config::from_yaml(text, "patch").train.batch_size, 64);
}

TEST(Patch, CannotBeBrokenByNames) {
  const Tuned t = tuned({"--data.file", "a\"b: #.h5"});
  const config::Config config = config::from_yaml(
      patch_text(t.result, t.loaded, "dtrain tune\nmodel: {name: resnet50}"), "patch");
  EXPECT_EQ(config.data.file, "a\"b: #.h5");
  EXPECT_EQ(config.model.name, catalog::NetworkId::kAuto);
}

TEST(PatchFile, IsNamedForTheConfig) {
  EXPECT_EQ(patch_file("configs/my.yaml"), "my.tuned.yaml");
  EXPECT_EQ(patch_file("dtrain.yaml"), "dtrain.tuned.yaml");
}

TEST(TuneReport, SaysWhatWasFound) {
  Tuned t = tuned({"--data.file", "d.h5"});
  t.result.found.largest = {
      .batch = 100, .end = LargestBatch::End::kLimit, .trials = {{.batch = 100, .fits = true}}};
  t.result.found.rows = {{.stage = Stage::kBatch,
                          .settings = t.result.found.settings,
                          .samples_per_second = 512.34,
                          .chosen = true}};
  const std::string text = text_of(t.result, "my.tuned.yaml");
  EXPECT_THAT(text, HasSubstr("512.3"));
  EXPECT_THAT(text, HasSubstr("(+25.0 %)"));
  EXPECT_THAT(text, HasSubstr("`dtrain my.tuned.yaml` trains with it"));
  t.result.interrupted = true;
  EXPECT_THAT(text_of(t.result, ""), HasSubstr("interrupted"));
  EXPECT_THAT(json_of(t.result, ""), HasSubstr("\"interrupted\": true"));
}

}  // namespace
}  // namespace dtrain::tune
