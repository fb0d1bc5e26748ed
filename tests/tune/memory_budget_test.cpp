// How much memory a rank may use, and the batch with which a search in it begins.

#include <gtest/gtest.h>

#include "config/load.h"
#include "tune/memory_budget.h"
#include "tune/memory_stage.h"

namespace dtrain::tune {
namespace {

TEST(ShareOfMemory, LeavesATenthAndIsEqual) {
  EXPECT_EQ(share_of_memory(1000, 1), 900);
  EXPECT_EQ(share_of_memory(1000, 3), 300);
  EXPECT_EQ(share_of_memory(1000, 0), 900) << "at least one rank uses it";
}

TEST(SearchStart, TakesWhatWasMeasuredOnTheCardBeforeAnEstimate) {
  const config::Config config =
      config::load({"--task", "classify", "--data.file", "d.h5", "--model.name", "resnet50",
                    "--model.image_size", "224"},
                   "/nonexistent", {.other_flags = {}, .check_dataset = false})
          .config;
  const TunedSettings given{.batch_size = 8, .amp = config::AmpMode::kBf16};
  job::Card card{.name = "h100", .memory_bytes = int64_t{79} << 30, .capability = 90};
  const int64_t all = share_of_memory(card.memory_bytes, 1);
  const SearchStart estimate = search_start(card, config, given, all);
  EXPECT_GT(estimate.batch, 100);
  EXPECT_EQ(estimate.source, "an estimate for h100");
  card.measured = {{.network = "resnet50", .image_size = 224, .half = true, .batch_size = 42}};
  const SearchStart measured = search_start(card, config, given, all);
  EXPECT_EQ(measured.batch, 42);
  EXPECT_EQ(measured.source, "a measurement on h100");
  EXPECT_EQ(search_start(card, config, given, all / 2).batch, 21) << "two ranks share the card";
  TunedSettings other = given;
  other.amp = config::AmpMode::kFp32;
  EXPECT_EQ(search_start(card, config, other, all).source, "an estimate for h100")
      << "measured with 16 bits";
  other.batch_size = 5000;
  EXPECT_EQ(search_start(card, config, other, all).batch, 5000) << "what is given is tried first";
  const config::Config unknown =
      config::load({"--task", "module", "--model.file", "net.pt", "--data.file", "d.h5"},
                   "/nonexistent", {.other_flags = {}, .check_dataset = false})
          .config;
  EXPECT_EQ(search_start(card, unknown, given, all).batch, 8);
  EXPECT_EQ(search_start(card, unknown, given, all).source, "");
}

}  // namespace
}  // namespace dtrain::tune
