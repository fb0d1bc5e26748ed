#include "synth/class_scene.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "synth/draws.h"
#include "synth/scene.h"

namespace dtrain::synth {
namespace {

constexpr double kPi = std::numbers::pi;

bool inside_polygon_ray(double radius, double angle, int corners, double inner) {
  // A regular star: its edge has radius 1 at the corners and radius `inner` halfway between them.
  const double step = kPi / corners;
  double a = std::fmod(std::fmod(angle, 2 * step) + 2 * step, 2 * step);
  a = std::min(a, 2 * step - a);  // 0 at a corner, `step` between two
  const double x = radius * std::cos(a), y = radius * std::sin(a);
  const double cx = inner * std::cos(step), cy = inner * std::sin(step);
  return (cx - 1) * y - cy * (x - 1) >= 0;  // left of the edge from the corner to the point between
}

// Whether the point (u, v) is inside the shape. In the object's own frame, coordinates range from
// -1 to 1.
bool of_form(int64_t scene_class, double u, double v, double detail) {
  const double radius = std::hypot(u, v), angle = std::atan2(v, u);
  const double side = std::max(std::abs(u), std::abs(v));
  const auto odd = [](double x) { return (static_cast<int64_t>(std::floor(x)) & 1) != 0; };
  switch (scene_class) {
    case 0:  // checks
      return side < 1 && odd(u * detail) != odd(v * detail);
    case 1:  // circle
      return radius < 0.9;
    case 2:  // cross
      return side < 1 && std::min(std::abs(u), std::abs(v)) < 0.28;
    case 3: {  // dots
      const double x = u * detail - std::floor(u * detail) - 0.5,
                   y = v * detail - std::floor(v * detail) - 0.5;
      return side < 1 && std::hypot(x, y) < 0.33;
    }
    case 4:  // ring
      return radius < 1 && radius > 0.58;
    case 5:  // square
      return side < 0.82;
    case 6:  // star
      return inside_polygon_ray(radius, angle, 5, 0.4);
    case 7:  // stripes
      return side < 1 && odd(u * detail);
    case 8:  // triangle
      return inside_polygon_ray(radius, angle, 3, 0.5);
    default: {  // zigzag
      const double along = (u + 1) * 1.5, wave = std::abs(along - std::floor(along) - 0.5) * 4 - 1;
      return std::abs(u) < 1 && std::abs(v - 0.55 * wave) < 0.3;
    }
  }
}

float brightness(const Color& c) { return 0.3f * c.r + 0.59f * c.g + 0.11f * c.b; }

// Draws a color that differs from the background in brightness, so that the edge of the shape
// is visible.
Color draw_contrasting(Draws& draw, float background) {
  constexpr float kContrast = 0.35f;
  Color color;
  do {
    color = draw.color(0, 1);
  } while (std::abs(brightness(color) - background) < kContrast);
  return color;
}

// Draws thin strokes and specks at random places.
void draw_clutter(Draws& draw, formats::Image& image) {
  const double size = image.height;
  const int64_t strokes = 3 + draw.below(6);
  for (int64_t s = 0; s < strokes; ++s) {
    const Color color = draw.color(0, 1);
    const double x = draw.uniform() * size, y = draw.uniform() * size, angle = draw.uniform() * kPi;
    const double length = draw.between(0.02f, 0.2f) * size,
                 width = draw.between(0.008f, 0.02f) * size + 0.4;
    const double dx = std::cos(angle), dy = std::sin(angle);
    const double reach = length + width;
    for (int v = std::max(0, static_cast<int>(y - reach)); v < std::min(size, y + reach); ++v) {
      for (int u = std::max(0, static_cast<int>(x - reach)); u < std::min(size, x + reach); ++u) {
        const double along = (u + 0.5 - x) * dx + (v + 0.5 - y) * dy;
        const double across = (v + 0.5 - y) * dx - (u + 0.5 - x) * dy;
        if (std::abs(along) < length && std::abs(across) < width)
          paint(image.at(u, v), color, 0.7f);
      }
    }
  }
}

}  // namespace

const std::vector<std::string>& scene_classes() {
  static const std::vector<std::string> names{"checks", "circle", "cross",   "dots",     "ring",
                                              "square", "star",   "stripes", "triangle", "zigzag"};
  return names;
}

formats::Image draw_class_scene(uint64_t seed, int64_t picture, int64_t scene_class, int size) {
  // The background: a smooth gradient in brightness and color.
  Draws draw(seed, Aspect::kObject, picture);
  formats::Image image(size, size);
  const float base = draw.between(0.3f, 0.7f);
  const auto near = [&] { return blend({base, base, base}, draw.color(0, 1), 0.3f); };
  const std::array<Color, 4> corners{near(), near(), near(), near()};
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const float u = (static_cast<float>(x) + 0.5f) / static_cast<float>(size);
      const float v = (static_cast<float>(y) + 0.5f) / static_cast<float>(size);
      paint(image.at(x, y),
            blend(blend(corners[0], corners[1], u), blend(corners[2], corners[3], u), v), 1);
    }
  }
  Draws clutter(seed, Aspect::kClutter, picture);
  draw_clutter(clutter, image);

  const double half = draw.between(0.28f, 0.42f) * static_cast<float>(size);
  const double room = (size / 2.0 - half) * 0.9;
  const double cx = size / 2.0 + (2 * draw.uniform() - 1) * room,
               cy = size / 2.0 + (2 * draw.uniform() - 1) * room;
  const double turn = draw.between(-0.4f, 0.4f), squeeze = draw.between(0.85f, 1.0f);
  // Checks, dots or stripes per half side
  const double detail = 2.5 + static_cast<double>(draw.below(3)) * 0.5;
  const Color color = draw_contrasting(draw, base);
  const float light_angle = draw.between(0, 2 * static_cast<float>(kPi)),
              light = draw.between(0, 0.3f);
  const double c = std::cos(turn), s = std::sin(turn);
  const float middle = static_cast<float>(size) / 2.0f;
  constexpr int kRays = 3;  // samples per pixel and axis, for smooth edges
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      int hits = 0;
      for (int r = 0; r < kRays * kRays; ++r) {
        const double px = (x + (r % kRays + 0.5) / kRays - cx) / half,
                     py = (y + (r / kRays + 0.5) / kRays - cy) / half;
        hits += of_form(scene_class, c * px + s * py, (c * py - s * px) / squeeze, detail);
      }
      if (hits > 0) paint(image.at(x, y), color, static_cast<float>(hits) / (kRays * kRays));
      // One side of the picture is brighter than the other.
      const float dx = static_cast<float>(x) - middle, dy = static_cast<float>(y) - middle;
      const float along =
          (std::cos(light_angle) * dx + std::sin(light_angle) * dy) / static_cast<float>(size);
      uint8_t* pixel = image.at(x, y);
      for (int k = 0; k < 3; ++k) {
        pixel[k] = static_cast<uint8_t>(
            std::clamp(pixel[k] * (1 + light * 2 * along) + 0.5f, 0.0f, 255.0f));
      }
    }
  }
  add_noise(seed, picture, image);
  return image;
}

}  // namespace dtrain::synth
