#include "synth/dynamics.h"

#include <array>
#include <cmath>
#include <numbers>

#include "synth/draws.h"

namespace dtrain::synth {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kNoise = 0.5;  // standard deviation; that of the signal is 0.87
constexpr double kSlow = 0.03, kMiddle = 0.06, kFast = 0.12;  // cycles per row
enum : int64_t {
  kBackward,
  kChirpDown,
  kChirpUp,
  kFastOne,
  kForward,
  kSlowOne,
  kStanding,
  kSwitching
};

// The frequency at each row, in cycles per row.
std::vector<double> frequencies(int64_t dynamics_class, int64_t rows, Draws& draw) {
  const double drift = draw.between(0.85f, 1.15f);
  std::vector<double> result(static_cast<size_t>(rows));
  bool fast = draw.chance(0.5f);
  int64_t next = 10 + draw.below(12);
  for (int64_t t = 0; t < rows; ++t) {
    const double along = static_cast<double>(t) / static_cast<double>(rows - 1);
    if (t == next) {
      fast = !fast;
      next += 10 + draw.below(12);
    }
    double frequency = kMiddle;
    if (dynamics_class == kChirpUp) frequency = kSlow + (kFast - kSlow) * along;
    if (dynamics_class == kChirpDown) frequency = kFast + (kSlow - kFast) * along;
    if (dynamics_class == kFastOne) frequency = kFast;
    if (dynamics_class == kSlowOne) frequency = kSlow;
    if (dynamics_class == kSwitching) frequency = fast ? kFast : kSlow;
    result[static_cast<size_t>(t)] = frequency * drift;
  }
  return result;
}

std::array<double, kDynamicsChannels> phases(int64_t dynamics_class, Draws& draw) {
  std::array<double, kDynamicsChannels> result{};
  const double first = draw.uniform();
  for (size_t c = 0; c < result.size(); ++c) {
    const double step = static_cast<double>(c) / kDynamicsChannels;
    const float any = draw.uniform();
    if (dynamics_class == kForward)
      result[c] = first - step;
    else if (dynamics_class == kBackward)
      result[c] = first + step;
    else if (dynamics_class == kStanding)
      result[c] = first + (any < 0.5f ? 0.5 : 0);
    else
      result[c] = any;
  }
  return result;
}

}  // namespace

const std::vector<std::string>& dynamics_classes() {
  static const std::vector<std::string> names{"backward", "chirp_down", "chirp_up", "fast",
                                              "forward",  "slow",       "standing", "switching"};
  return names;
}

std::vector<float> draw_dynamics(uint64_t seed, int64_t sequence, int64_t dynamics_class) {
  Draws draw(seed, Aspect::kSequence, sequence);
  const int64_t rows = kShortestSequence + draw.below(kLongestSequence - kShortestSequence + 1);
  const std::vector<double> frequency = frequencies(dynamics_class, rows, draw);
  const auto phase = phases(dynamics_class, draw);
  std::vector<float> values(static_cast<size_t>(rows * kDynamicsChannels));
  for (size_t c = 0; c < kDynamicsChannels; ++c) {
    std::vector<double> channel;
    double cycles = phase[c], sum = 0, squares = 0;
    for (const double f : frequency) {
      channel.push_back(std::sqrt(2 * (1 - kNoise * kNoise)) * std::sin(kTurn * cycles) +
                        kNoise * draw.normal());
      sum += channel.back();
      squares += channel.back() * channel.back();
      cycles += f;
    }
    const double mean = sum / static_cast<double>(rows);
    const double deviation = std::sqrt(squares / static_cast<double>(rows) - mean * mean);
    for (size_t t = 0; t < channel.size(); ++t) {
      values[t * kDynamicsChannels + c] = static_cast<float>((channel[t] - mean) / deviation);
    }
  }
  return values;
}

}  // namespace dtrain::synth
