#pragma once

// Sequences whose classes differ in how they move, for the task `sequence`: six channels of mean 0 and variance 1 under
// noise, 40 to 200 rows. Neither a mean nor a spread nor a single row tells the class.

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::synth {

inline constexpr int64_t kDynamicsChannels = 6;
inline constexpr int64_t kShortestSequence = 40, kLongestSequence = 200;

// Sorted: backward and forward (a wave travels over the channels), chirp_down and chirp_up (its frequency falls or
// rises), fast, slow, standing (all channels in phase or against it), switching (between slow and fast).
const std::vector<std::string>& dynamics_classes();

// T × kDynamicsChannels. A function of the arguments alone. Thread-safe.
std::vector<float> draw_dynamics(uint64_t seed, int64_t sequence, int64_t dynamics_class);

}  // namespace dtrain::synth
