#pragma once

// A head made of ellipsoids: skull, jaw, nose, eyes, brows, mouth, ears, hair, neck, shoulders. The
// unit is about half the height of a head; the origin is its middle. The head is symmetric: a
// mirrored picture shows the mirrored pose.

#include <vector>

#include "formats/mat_file.h"
#include "synth/renderer.h"

namespace dtrain::synth {

struct Person {
  Color skin{0.85f, 0.65f, 0.52f}, hair{0.2f, 0.13f, 0.08f}, iris{0.25f, 0.2f, 0.15f},
      clothes{0.2f, 0.3f, 0.5f};
  double width = 1;        // width of the face, about 0.9 to 1.1
  double jaw = 1;          // length of the jaw, about 0.9 to 1.1
  double nose = 1;         // length of the nose, about 0.8 to 1.25
  double hair_volume = 1;  // 0: bald; about 0.97 to 1.12
  bool beard = false;
};

std::vector<Ellipsoid> head_model(const Person&);

inline constexpr double kMillimetersPerUnit = 105;  // a head of 2.2 units is 231 mm high

// The 68 landmarks of the posed head in the picture, a 2 × 68 matrix of pixel coordinates, in the
// order of iBUG: 0-16 contour, 17-26 brows, 27-35 nose, 36-47 eyes, 48-67 mouth.
formats::Matrix landmarks(const convert::HeadPose&, const ScenePlacement&);

}  // namespace dtrain::synth
