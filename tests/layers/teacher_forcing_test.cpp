#include "layers/teacher_forcing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "layers/random_context.h"

namespace dtrain::layers {
namespace {

TEST(TeacherForcing, FallsLinearlyOverTheEpochs) {
  const TeacherForcing falls{1, 0.2, 5};
  EXPECT_DOUBLE_EQ(teacher_forcing_ratio(falls, 0), 1);
  EXPECT_DOUBLE_EQ(teacher_forcing_ratio(falls, 2), 0.6);
  EXPECT_DOUBLE_EQ(teacher_forcing_ratio(falls, 4), 0.2);
  EXPECT_DOUBLE_EQ(teacher_forcing_ratio(falls, 9), 0.2);
  EXPECT_DOUBLE_EQ(teacher_forcing_ratio({0.7, 0, 1}, 0), 0.7);
}

TEST(TeacherForcing, IsDrawnBySeedEpochAndSample) {
  int forced = 0, as_other_epoch = 0;
  for (int64_t id = 0; id < 10000; ++id) {
    forced += is_forced(1, 3, id, 0.3);
    as_other_epoch += is_forced(1, 3, id, 0.5) == is_forced(1, 4, id, 0.5);
    EXPECT_FALSE(is_forced(1, 3, id, 0));
    EXPECT_TRUE(is_forced(1, 3, id, 1));
  }
  EXPECT_NEAR(forced, 3000, 200);
  EXPECT_NEAR(as_other_epoch, 5000, 250);
}

// Twenty samples as a bit mask: what any run has drawn with this key.
TEST(TeacherForcing, DrawsWhatItHasAlwaysDrawn) {
  int64_t bits = 0;
  for (int64_t id = 0; id < 20; ++id) bits |= int64_t{is_forced(1, 3, id, 0.5)} << id;
  EXPECT_EQ(bits, 567769);
}

TEST(TeacherForcing, TheTensorHasTheDrawsOfItsKeyInEachEpoch) {
  const TeacherForcing forcing{0.9, 0.1, 4};
  const RandomContext key =
      random_context(/*seed=*/7, /*step=*/0, at::arange(50) * 1000003, /*epoch=*/0);
  for (const int64_t epoch : {0, 1, 3, 8}) {
    key.epoch.fill_(epoch);
    const at::Tensor drawn = forced_samples(key, forcing);
    ASSERT_EQ(drawn.scalar_type(), at::kBool);
    ASSERT_EQ(drawn.sizes(), at::IntArrayRef({50}));
    for (int64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(drawn[i].item<bool>(),
                is_forced(7, epoch, i * 1000003, teacher_forcing_ratio(forcing, epoch)));
    }
  }
}

}  // namespace
}  // namespace dtrain::layers
