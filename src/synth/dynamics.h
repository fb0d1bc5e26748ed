#pragma once

// Generated sequences whose classes differ in their dynamics, for the task `sequence`: noisy waves
// in six channels with mean 0 and variance 1, and 40 to 200 rows. Neither means, variances nor a
// single row determine the class.

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::synth {

inline constexpr int64_t kDynamicsChannels = 6;
inline constexpr int64_t kShortestSequence = 40, kLongestSequence = 200;

// Sorted: backward and forward (a wave moves across the channels), chirp_down and chirp_up (its
// frequency falls or rises), fast, slow, standing (channels are in phase or in antiphase),
// switching (between slow and fast).
const std::vector<std::string>& dynamics_classes();

// The values, T × kDynamicsChannels. A function of the arguments alone. Thread-safety: may be
// called from any thread.
std::vector<float> draw_dynamics(uint64_t seed, int64_t sequence, int64_t dynamics_class);

}  // namespace dtrain::synth
