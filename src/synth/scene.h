#pragma once

// What a generated photo shows, as a function of (seed, photo) alone: a person, a light, a cluttered background; and
// the pose and place of the head in one picture of it, a function of (seed, picture).

#include <cstdint>

#include "formats/image.h"
#include "synth/head_model.h"

namespace dtrain::synth {

// Poses are triangular about 0 up to these limits, in degrees: a predictor that always says 0 is off by a third of the
// limit on average, 18.3 degrees over the three angles.
inline constexpr convert::HeadPose kPoseLimits{.yaw = 75, .pitch = 50, .roll = 40};

Person draw_person(uint64_t seed, int64_t person);
Light draw_light(uint64_t seed, int64_t photo);
formats::Image draw_background(uint64_t seed, int64_t photo, int width, int height);
convert::HeadPose draw_pose(uint64_t seed, int64_t picture);
// `share`: half a head's height as a share of the picture's height, before ±12 %; `wander`: largest offset from the
// middle as a share of the height.
Placement draw_placement(uint64_t seed, int64_t picture, int width, int height, double share, double wander);

void add_noise(uint64_t seed, int64_t picture, formats::Image& image);  // as of a sensor: about 3 grey levels

}  // namespace dtrain::synth
