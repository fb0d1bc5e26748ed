#pragma once

// A stream of random values for one aspect of one generated object: a function of (seed, aspect,
// index) alone.

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/random.h"
#include "synth/renderer.h"

namespace dtrain::synth {

enum class Aspect : uint64_t {
  kPerson = 1,
  kLight,
  kBackground,
  kPose,
  kPlacement,
  kNoise,
  kObject,
  kClutter,
  kSet,
  kSequence
};

class Draws {
 public:
  Draws(uint64_t seed, Aspect aspect, int64_t index)
      : key_(keyed(static_cast<uint64_t>(Purpose::kSynth), seed, static_cast<uint64_t>(aspect),
                   static_cast<uint64_t>(index))) {}
  float uniform() { return uniform01(keyed(key_, count_++)); }
  float between(float low, float high) { return low + (high - low) * uniform(); }
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uniform() * static_cast<double>(count));
  }
  double triangular(double limit) {
    return limit * (static_cast<double>(uniform()) + uniform() - 1);
  }
  double normal() {  // Box-Muller
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(uniform())));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  bool chance(float p) { return uniform() < p; }
  Color color(float low, float high) {
    const float r = between(low, high), g = between(low, high), b = between(low, high);
    return {r, g, b};
  }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace dtrain::synth
