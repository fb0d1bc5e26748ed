#pragma once

// A small ray caster for ellipsoids, with parallel rays, one lamp, and 2 × 2 rays per pixel.
// Intersecting a ray takes one quadratic equation, so a head of twenty parts at 64 × 64 pixels
// takes about a millisecond. Axes are those of head_pose.h: x right, y down, z away from the
// viewer. The result is deterministic. Thread-safety: all functions may be called from any thread.

#include <cstdint>
#include <vector>

#include "convert/head_pose.h"
#include "formats/image.h"

namespace dtrain::synth {

struct Color {
  float r = 0, g = 0, b = 0;  // 0 to 1
};
Color blend(const Color& a, const Color& b, float share);  // `share` of b, the rest of a
// Blends `color` over an RGB pixel
void paint(uint8_t* pixel, const Color& color, float share = 1);

struct Ellipsoid {
  convert::Vector3 center{};
  convert::Vector3 radii{};
  Color color;
  float shine = 0;    // strength of the highlight
  bool turns = true;  // false: part of the body, which does not turn with the head
  double tilt = 0;    // degrees about z, before the head turns
};

struct Light {
  convert::Vector3 towards{0, 0, -1};  // unit vector from the scene to the lamp
  float ambient = 0.4f, diffuse = 0.6f;
};

struct ScenePlacement {
  double x = 0, y = 0;  // the scene's origin, in pixels
  double scale = 1;     // pixels per unit of length
};

// Draws the solids over `picture`.
void render(const std::vector<Ellipsoid>&, const convert::HeadPose&, const ScenePlacement&,
            const Light&, formats::Image& picture);

}  // namespace dtrain::synth
