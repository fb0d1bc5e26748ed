#include "job/placement.h"

#include <gtest/gtest.h>

namespace dtrain::job {
namespace {

data::SampleSpec samples(data::SampleSpec::Kind kind) {
  data::SampleSpec spec;
  spec.kind = kind;
  return spec;
}

TEST(ChooseAlgorithms, CuDnnSearchesForImagesAlone) {
  config::Config config;
  choose_algorithms(config, samples(data::SampleSpec::Kind::kImage));
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
  choose_algorithms(config, samples(data::SampleSpec::Kind::kRows));
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN()) << "every length would start a search";
  config.device.cudnn_benchmark = false;
  choose_algorithms(config, samples(data::SampleSpec::Kind::kImage));
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
}

TEST(ChooseAlgorithms, DeterminismNeedsNoSearch) {
  config::Config config;
  config.train.deterministic = true;
  choose_algorithms(config, samples(data::SampleSpec::Kind::kImage));
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  choose_algorithms({}, samples(data::SampleSpec::Kind::kImage));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

}  // namespace
}  // namespace dtrain::job
