#include "synth/scene.h"

#include <algorithm>
#include <cmath>

#include "synth/draws.h"

namespace dtrain::synth {

Person draw_person(uint64_t seed, int64_t person) {
  Draws draw(seed, Aspect::kPerson, person);
  Person p;
  p.skin = blend({0.36f, 0.22f, 0.15f}, {0.95f, 0.78f, 0.67f}, draw.uniform());
  p.hair =
      blend({0.06f, 0.05f, 0.05f},
            blend({0.45f, 0.24f, 0.10f}, {0.80f, 0.70f, 0.50f}, draw.uniform()), draw.uniform());
  p.iris = draw.color(0.08f, 0.45f);
  p.clothes = draw.color(0.05f, 0.95f);
  p.width = draw.between(0.90f, 1.08f);
  p.jaw = draw.between(0.92f, 1.10f);
  p.nose = draw.between(0.80f, 1.25f);
  p.hair_volume = draw.chance(0.1f) ? 0 : draw.between(0.98f, 1.10f);
  p.beard = draw.chance(0.2f);
  return p;
}

Light draw_light(uint64_t seed, int64_t photo) {
  Draws draw(seed, Aspect::kLight, photo);
  const double x = draw.between(-0.9f, 0.9f), y = draw.between(-0.9f, 0.3f), z = -1;
  const double length = std::sqrt(x * x + y * y + z * z);
  const float ambient = draw.between(0.25f, 0.50f);
  return {.towards = {x / length, y / length, z / length},
          .ambient = ambient,
          .diffuse = draw.between(0.85f, 1.15f) - ambient};
}

formats::Image draw_background(uint64_t seed, int64_t photo, int width, int height) {
  Draws draw(seed, Aspect::kBackground, photo);
  formats::Image image(width, height);
  const auto w = static_cast<float>(width), h = static_cast<float>(height);
  const Color from = draw.color(0.05f, 0.95f), to = draw.color(0.05f, 0.95f);
  const float slope_x = draw.between(-1, 1), slope_y = draw.between(-1, 1);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float along = 0.5f + slope_x * (static_cast<float>(x) / w - 0.5f) +
                          slope_y * (static_cast<float>(y) / h - 0.5f);
      paint(image.at(x, y), blend(from, to, std::clamp(along, 0.0f, 1.0f)), 1);
    }
  }
  const int shapes = 6 + static_cast<int>(14 * draw.uniform());
  for (int s = 0; s < shapes; ++s) {
    const bool round = draw.chance(0.4f);
    const float cx = draw.uniform() * w, cy = draw.uniform() * h;
    const float rx = draw.between(0.03f, 0.25f) * w, ry = draw.between(0.03f, 0.25f) * h;
    const Color color = draw.color(0, 1);
    const float share = draw.between(0.4f, 1);
    const int top = std::max(0, static_cast<int>(cy - ry)),
              bottom = std::min(height, static_cast<int>(cy + ry));
    const int left = std::max(0, static_cast<int>(cx - rx)),
              right = std::min(width, static_cast<int>(cx + rx));
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        const float dx = (static_cast<float>(x) - cx) / rx, dy = (static_cast<float>(y) - cy) / ry;
        if (!round || dx * dx + dy * dy < 1) paint(image.at(x, y), color, share);
      }
    }
  }
  return image;
}

convert::HeadPose draw_pose(uint64_t seed, int64_t picture) {
  Draws draw(seed, Aspect::kPose, picture);
  convert::HeadPose pose;
  pose.yaw = draw.triangular(kPoseLimits.yaw);
  pose.pitch = draw.triangular(kPoseLimits.pitch);
  pose.roll = draw.triangular(kPoseLimits.roll);
  return pose;
}

ScenePlacement draw_placement(uint64_t seed, int64_t picture, int width, int height, double share,
                              double wander) {
  Draws draw(seed, Aspect::kPlacement, picture);
  ScenePlacement place;
  place.scale = height * share * draw.between(0.88f, 1.12f);
  place.x = width / 2.0 + height * wander * draw.between(-1, 1);
  place.y = height / 2.0 + height * wander * draw.between(-1, 1);
  return place;
}

void add_noise(uint64_t seed, int64_t picture, formats::Image& image) {
  const uint64_t key = keyed(static_cast<uint64_t>(Purpose::kSynth), seed,
                             static_cast<uint64_t>(Aspect::kNoise), static_cast<uint64_t>(picture));
  for (size_t i = 0; i < image.rgb.size();
       i += 2) {  // one word gives two sums of four bytes, nearly normally distributed
    const uint64_t word = keyed(key, i);
    for (size_t k = 0; k < 2 && i + k < image.rgb.size(); ++k) {
      const auto half = static_cast<uint32_t>(word >> (32 * k));
      const int sum =
          static_cast<int>((half & 255) + (half >> 8 & 255) + (half >> 16 & 255) + (half >> 24)) -
          510;
      image.rgb[i + k] = static_cast<uint8_t>(std::clamp(image.rgb[i + k] + sum / 48, 0, 255));
    }
  }
}

}  // namespace dtrain::synth
