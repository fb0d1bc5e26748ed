#include "synth/head_model.h"

#include <cmath>
#include <numbers>

namespace dtrain::synth {
namespace {

using convert::operator*;

// The landmarks of a face of average proportions. The left side of the picture comes first.
std::vector<convert::Vector3> face_points() {
  constexpr double kPi = std::numbers::pi;
  std::vector<convert::Vector3> points;
  for (int i = 0; i < 17; ++i) {  // contour: ear, chin, ear
    const double a = (i - 8) * kPi / 16;
    points.push_back({0.76 * std::sin(a), 0.02 + 1.02 * std::cos(a), 0.10 - 0.50 * std::cos(a)});
  }
  for (int side : {-1, 1}) {  // brows, from left to right
    for (int i = 0; i < 5; ++i) {
      const double outwards = side < 0 ? 4 - i : i;
      points.push_back({side * (0.13 + 0.10 * outwards),
                        -0.30 - 0.06 * std::sin(outwards * kPi / 4), -0.84 + 0.04 * outwards});
    }
  }
  for (int i = 0; i < 4; ++i)
    points.push_back({0, -0.14 + 0.13 * i, -0.88 - 0.09 * i});  // bridge of the nose
  for (int i = -2; i <= 2; ++i)
    points.push_back({0.07 * i, 0.36 - 0.02 * std::abs(i), -0.98 + 0.03 * std::abs(i)});
  for (int side : {-1, 1}) {  // eyes, each from its left corner over the upper lid
    for (int i = 0; i < 6; ++i) {
      const double a = kPi + i * kPi / 3;
      points.push_back({side * 0.31 + 0.15 * std::cos(a), -0.12 + 0.08 * std::sin(a), -0.80});
    }
  }
  const auto lips = [&](int count, double width, double height) {
    for (int i = 0; i < count; ++i) {
      const double a = kPi + 2 * kPi * i / count;
      points.push_back(
          {width * std::cos(a), 0.58 + height * std::sin(a), -0.82 + 0.08 * std::abs(std::cos(a))});
    }
  };
  lips(12, 0.25, 0.10);
  lips(8, 0.20, 0.04);
  return points;
}

}  // namespace

std::vector<Ellipsoid> head_model(const Person& p) {
  const double w = p.width, chin = 0.42 * p.jaw;
  const Color lips = blend(p.skin, {0.65f, 0.15f, 0.18f}, 0.6f),
              blush = blend(p.skin, {0.8f, 0.35f, 0.3f}, 0.25f);
  const Color white{0.93f, 0.93f, 0.92f}, black{0.03f, 0.03f, 0.03f};
  const Color brow = blend(p.hair, black, 0.3f),
              chin_color = p.beard ? blend(p.skin, p.hair, 0.75f) : p.skin;
  std::vector<Ellipsoid> solids;
  const auto add = [&](const convert::Vector3& center, const convert::Vector3& radii,
                       const Color& color, float shine = 0, double tilt = 0) {
    solids.push_back(
        {.center = center, .radii = radii, .color = color, .shine = shine, .tilt = tilt});
  };
  add({0, -0.12, 0.06}, {0.78 * w, 0.96, 0.90}, p.skin, 0.15f);
  add({0, chin, -0.18}, {0.56 * w, 0.62, 0.62}, chin_color, 0.08f);
  add({0, 0.08, -0.92}, {0.10, 0.28, 0.16 * p.nose}, p.skin, 0.2f);  // bridge
  add({0, 0.26, -0.96}, {0.15, 0.13, 0.24 * p.nose}, blush, 0.3f);   // tip
  add({0, 0.58, -0.74}, {0.25 * w, 0.075, 0.09}, lips, 0.2f);
  add({0, 1.45, 0.22}, {0.40, 0.95, 0.40}, blend(p.skin, black, 0.12f));
  solids.back().turns = false;
  add({0, 2.55, 0.35}, {1.65, 0.95, 0.75}, p.clothes);
  solids.back().turns = false;
  for (const int side : {-1, 1}) {
    const double s = side;
    add({s * 0.31 * w, -0.12, -0.74}, {0.155, 0.095, 0.09}, white);
    add({s * 0.31 * w, -0.12, -0.80}, {0.075, 0.08, 0.055}, p.iris, 0.8f);
    add({s * 0.31 * w, -0.12, -0.83}, {0.035, 0.038, 0.035}, black);
    add({s * 0.33 * w, -0.33, -0.76}, {0.20, 0.045, 0.10}, brow, 0, s * 6);
    add({s * 0.37 * w, 0.22, -0.56}, {0.25, 0.24, 0.22}, blend(p.skin, blush, 0.3f));  // cheek
    add({s * 0.80 * w, -0.02, 0.14}, {0.08, 0.24, 0.17}, blush, 0, s * 8);             // ear
  }
  if (p.hair_volume > 0) {
    const double v = p.hair_volume;
    add({0, -0.30, 0.26}, {0.84 * w * v, 0.90 * v, 0.90 * v}, p.hair, 0.25f);
    add({0, 0.15, 0.55}, {0.74 * w * v, 0.85, 0.50 * v}, p.hair, 0.15f);
  }
  return solids;
}

formats::Matrix landmarks(const convert::HeadPose& pose, const ScenePlacement& place) {
  static const std::vector<convert::Vector3> points = face_points();
  const convert::Matrix3 turn = rotation(pose);
  formats::Matrix result{.rows = 2, .columns = points.size(), .values = {}};
  for (const convert::Vector3& point : points) {
    const convert::Vector3 at = turn * point;
    result.values.push_back(place.x + place.scale * at[0]);
    result.values.push_back(place.y + place.scale * at[1]);
  }
  return result;
}

}  // namespace dtrain::synth
