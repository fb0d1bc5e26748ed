#pragma once

// Generated pictures of ten classes of shapes and textures, for the task `classify`. Class, place,
// size, rotation, colors, light, clutter and noise are drawn independently, so that a network must
// recognize the shape: neither the mean color nor any fixed pixel depends on the class.

#include <cstdint>
#include <string>
#include <vector>

#include "formats/image.h"

namespace dtrain::synth {

// Sorted: checks, circle, cross, dots, ring, square, star, stripes, triangle, zigzag.
const std::vector<std::string>& scene_classes();

// A function of the arguments alone. Thread-safety: may be called from any thread.
formats::Image draw_class_scene(uint64_t seed, int64_t picture, int64_t scene_class, int size);

}  // namespace dtrain::synth
