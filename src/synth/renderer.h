#pragma once

// A small ray caster for solids made of ellipsoids: parallel rays, one lamp, 2 × 2 rays per pixel. A ray meets an
// ellipsoid by one quadratic equation, so a head of twenty parts at 64 × 64 pixels takes about a millisecond. Axes:
// head_pose.h (x right, y down, z away from the viewer). Deterministic; thread-safe.

#include <vector>

#include "convert/head_pose.h"
#include "formats/image.h"

namespace dtrain::synth {

struct Colour {
  float r = 0, g = 0, b = 0;  // 0 to 1
};

struct Ellipsoid {
  convert::Vector3 centre{};
  convert::Vector3 radii{};
  Colour colour;
  float shine = 0;    // of its highlight
  bool turns = true;  // with the head; false: body, which stays upright
  double tilt = 0;    // degrees about z, before the head turns
};

struct Light {
  convert::Vector3 towards{0, 0, -1};  // unit vector from the scene to the lamp
  float ambient = 0.4f, diffuse = 0.6f;
};

struct Placement {
  double x = 0, y = 0;  // of the scene's origin, in pixels
  double scale = 1;     // pixels per unit of length
};

// Draws the solids over `picture`.
void render(const std::vector<Ellipsoid>&, const convert::HeadPose&, const Placement&, const Light&,
            formats::Image& picture);

}  // namespace dtrain::synth
