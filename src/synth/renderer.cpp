#include "synth/renderer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtrain::synth {
namespace {

using convert::operator*;

constexpr int kRays = 2;  // per pixel and axis
using Vec = std::array<float, 3>;

float dot(const Vec& a, const Vec& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

convert::Matrix3 product(const convert::Matrix3& a, const convert::Matrix3& b) {
  convert::Matrix3 result{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) result[i][j] += a[i][k] * b[k][j];
    }
  }
  return result;
}

// An ellipsoid in the camera's frame. It stores the columns of the matrix M for which q = M · (p -
// center) maps it to the unit sphere.
struct Placed {
  Vec center, column_x, column_y, column_z;
  float zz;  // |column_z|²
  float reach_x, reach_y;
  Color color;
  float shine;

  Placed(const Ellipsoid& e, const convert::Matrix3& head) : color(e.color), shine(e.shine) {
    const convert::Matrix3 upright = convert::rotation({});
    const convert::Matrix3& turn = e.turns ? head : upright;
    const convert::Vector3 at = turn * e.center;
    const convert::Matrix3 axes =
        product(turn, convert::rotation({.yaw = 0, .pitch = 0, .roll = e.tilt}));
    double x2 = 0, y2 = 0;
    for (int k = 0; k < 3; ++k) {
      center[k] = static_cast<float>(at[k]);
      column_x[k] = static_cast<float>(axes[0][k] / e.radii[k]);
      column_y[k] = static_cast<float>(axes[1][k] / e.radii[k]);
      column_z[k] = static_cast<float>(axes[2][k] / e.radii[k]);
      x2 += axes[0][k] * axes[0][k] * e.radii[k] * e.radii[k];
      y2 += axes[1][k] * axes[1][k] * e.radii[k] * e.radii[k];
    }
    zz = dot(column_z, column_z);
    reach_x = static_cast<float>(std::sqrt(x2));
    reach_y = static_cast<float>(std::sqrt(y2));
  }

  Vec on_plane(float x, float y) const {
    Vec u;
    for (int k = 0; k < 3; ++k)
      u[k] = column_x[k] * (x - center[0]) + column_y[k] * (y - center[1]);
    return u;
  }

  // The depth at which the ray (x, y) enters; infinity if it misses.
  float depth(float x, float y) const {
    const Vec u = on_plane(x, y);
    const float b = dot(u, column_z);
    const float d = b * b - zz * (dot(u, u) - 1);
    return d < 0 ? std::numeric_limits<float>::infinity() : center[2] - (b + std::sqrt(d)) / zz;
  }

  Vec normal(float x, float y, float z) const {
    Vec q = on_plane(x, y);
    for (int k = 0; k < 3; ++k) q[k] += column_z[k] * (z - center[2]);
    Vec n{dot(column_x, q), dot(column_y, q), dot(column_z, q)};
    const float length = std::sqrt(dot(n, n));
    for (float& value : n) value /= length;
    return n;
  }
};

Color shade(const Placed& solid, const Vec& normal, const Light& light) {
  const Vec towards{static_cast<float>(light.towards[0]), static_cast<float>(light.towards[1]),
                    static_cast<float>(light.towards[2])};
  const float facing = dot(normal, towards);
  const float bright = light.ambient + light.diffuse * std::max(0.0f, facing);
  // The highlight: cosine between the reflected light and the viewing direction (0, 0, -1), to the
  // 16th power.
  const float mirror = std::max(0.0f, 2 * facing * -normal[2] + towards[2]);
  const float p4 = mirror * mirror * mirror * mirror;
  const float glint = facing > 0 ? solid.shine * light.diffuse * p4 * p4 * p4 * p4 : 0;
  return {solid.color.r * bright + glint, solid.color.g * bright + glint,
          solid.color.b * bright + glint};
}

}  // namespace

Color blend(const Color& a, const Color& b, float share) {
  return {a.r + (b.r - a.r) * share, a.g + (b.g - a.g) * share, a.b + (b.b - a.b) * share};
}

void paint(uint8_t* pixel, const Color& color, float share) {
  const float parts[3] = {color.r, color.g, color.b};
  for (int k = 0; k < 3; ++k) {
    const float level = pixel[k];
    pixel[k] = static_cast<uint8_t>(
        std::clamp(level + (255 * parts[k] - level) * share + 0.5f, 0.0f, 255.0f));
  }
}

void render(const std::vector<Ellipsoid>& solids, const convert::HeadPose& pose,
            const ScenePlacement& place, const Light& light, formats::Image& picture) {
  const convert::Matrix3 head = rotation(pose);
  std::vector<Placed> placed;
  for (const Ellipsoid& solid : solids) placed.emplace_back(solid, head);

  const int columns = picture.width * kRays, rows = picture.height * kRays;
  // Distance of neighboring rays in the scene
  const auto unit = static_cast<float>(1 / (place.scale * kRays));
  const auto x0 = static_cast<float>(place.x * kRays), y0 = static_cast<float>(place.y * kRays);
  const auto scene_x = [&](int column) { return (static_cast<float>(column) + 0.5f - x0) * unit; };
  const auto scene_y = [&](int row) { return (static_cast<float>(row) + 0.5f - y0) * unit; };

  constexpr float kFar = std::numeric_limits<float>::infinity();
  std::vector<float> depth(static_cast<size_t>(columns) * rows, kFar);
  std::vector<uint8_t> nearest(depth.size());
  for (size_t s = 0; s < placed.size(); ++s) {
    const Placed& solid = placed[s];
    const int left =
        std::max(0, static_cast<int>((solid.center[0] - solid.reach_x) / unit + x0 - 1));
    const int right =
        std::min(columns - 1, static_cast<int>((solid.center[0] + solid.reach_x) / unit + x0 + 1));
    const int top =
        std::max(0, static_cast<int>((solid.center[1] - solid.reach_y) / unit + y0 - 1));
    const int bottom =
        std::min(rows - 1, static_cast<int>((solid.center[1] + solid.reach_y) / unit + y0 + 1));
    for (int row = top; row <= bottom; ++row) {
      for (int column = left; column <= right; ++column) {
        const size_t ray = static_cast<size_t>(row) * columns + column;
        const float z = solid.depth(scene_x(column), scene_y(row));
        if (z < depth[ray]) {
          depth[ray] = z;
          nearest[ray] = static_cast<uint8_t>(s);
        }
      }
    }
  }

  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      uint8_t* pixel = picture.at(x, y);
      float sum[3] = {0, 0, 0};
      for (int ray = 0; ray < kRays * kRays; ++ray) {
        const int column = x * kRays + ray % kRays, row = y * kRays + ray / kRays;
        const size_t at = static_cast<size_t>(row) * columns + column;
        if (depth[at] == kFar) {
          for (int c = 0; c < 3; ++c) sum[c] += pixel[c];
          continue;
        }
        const Placed& solid = placed[nearest[at]];
        const float sx = scene_x(column), sy = scene_y(row);
        const Color color = shade(solid, solid.normal(sx, sy, depth[at]), light);
        sum[0] += 255 * color.r, sum[1] += 255 * color.g, sum[2] += 255 * color.b;
      }
      for (int c = 0; c < 3; ++c) {
        pixel[c] = static_cast<uint8_t>(std::min(255.0f, sum[c] / (kRays * kRays) + 0.5f));
      }
    }
  }
}

}  // namespace dtrain::synth
