#pragma once

// Keyed randomness: every random number is a function of its purpose (seed, epoch, sample id, ...),
// not of how many were drawn before, so that nothing depends on the number of ranks, threads or
// restarts. mix64() is the finalizer of Sebastiano Vigna's SplitMix64 (public domain), a bijection
// of 64-bit words. Thread-safety: pure functions.

#include <cstdint>

#include "core/host_device.h"

namespace dtrain {

DTRAIN_HD inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

DTRAIN_HD inline uint64_t keyed(uint64_t key) { return mix64(key); }

// One 64-bit word for the ordered tuple (a, b, c, ...). Different tuples give unrelated words.
template <typename... Rest>
DTRAIN_HD inline uint64_t keyed(uint64_t first, uint64_t second, Rest... rest) {
  return keyed(mix64(first) ^ second, static_cast<uint64_t>(rest)...);
}

// Uniform in [0, 1), a multiple of 2^-24: exact in float, and so equal on CPU and GPU.
DTRAIN_HD inline float uniform01(uint64_t word) {
  return static_cast<float>(word >> 40) * (1.0f / 16777216.0f);
}

// The purpose of a random number, the first part of its key: two uses of one sample never
// share numbers.
enum class Purpose : uint64_t {
  kPermutation = 1,
  kAugmentation,
  kDropout,
  kSplit,
  kLedger,
  kInit,
  kSynth,
  kTeacherForcing,
  kSubset,
};

}  // namespace dtrain
