#pragma once

// The content of generated photos of heads. A photo has a person, a light and a cluttered
// background, which are functions of (seed, photo). Each picture of it has its own pose and place
// of the head, functions of (seed, picture).

#include <cstdint>

#include "formats/image.h"
#include "synth/head_model.h"

namespace dtrain::synth {

// Angles have a triangular distribution from minus to plus these limits, in degrees. A predictor
// that always returns 0 has a mean absolute error of a third of the limit: 18.3 degrees on average
// over the three angles.
inline constexpr convert::HeadPose kPoseLimits{.yaw = 75, .pitch = 50, .roll = 40};

Person draw_person(uint64_t seed, int64_t person);
Light draw_light(uint64_t seed, int64_t photo);
formats::Image draw_background(uint64_t seed, int64_t photo, int width, int height);
convert::HeadPose draw_pose(uint64_t seed, int64_t picture);
// `share` is half the height of a head, `wander` the largest offset from the middle, both as shares
// of the picture's height. The size varies by ±12 %.
ScenePlacement draw_placement(uint64_t seed, int64_t picture, int width, int height, double share,
                              double wander);

// Sensor noise of about 3 gray levels
void add_noise(uint64_t seed, int64_t picture, formats::Image& image);

}  // namespace dtrain::synth
