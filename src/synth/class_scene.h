#pragma once

// Pictures of ten classes of shapes and textures, for the task `classify`. Class, place, size, turn, colours, light,
// clutter and noise are drawn apart, so that neither a mean colour nor a fixed pixel tells the class: its form has to
// be seen.

#include <cstdint>
#include <string>
#include <vector>

#include "formats/image.h"

namespace dtrain::synth {

// Sorted: checks, circle, cross, dots, ring, square, star, stripes, triangle, zigzag.
const std::vector<std::string>& scene_classes();

// A function of the arguments alone. Thread-safe.
formats::Image draw_class_scene(uint64_t seed, int64_t picture, int64_t scene_class, int size);

}  // namespace dtrain::synth
