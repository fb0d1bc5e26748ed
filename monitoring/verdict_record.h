#pragma once

// What a run says of itself, as sinks receive it: the verdict and its runners-up
// (diagnose/verdict.h makes it, job/ passes it on). Plain values.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dtrain::monitoring {

struct VerdictRecord {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  struct Cause {
    std::string name = {};    // "decode", as diagnose/causes.def lists them
    int64_t rank = -1;        // -1: all alike
    double gain = kUnknown;   // 0.38: 38 % more steps per second; NaN: not computable
    double error = kUnknown;  // standard error of the gain
    std::string setting = {}, evidence = {}, otherwise = {};  // see diagnose::Finding
  };
  // Where the waiting for gradients went: seconds per step, each counted once. NaN: not measured,
  // or one rank.
  struct Communication {
    double late = kUnknown;  // for the rank that arrives last, mean over ranks
    // For the latency of messages; for the transfer of their bytes
    double latency = kUnknown, bandwidth = kUnknown;
    double not_overlapped = kUnknown;  // with backward, though buckets of another size would be
    double other = kUnknown;           // more than the network was measured to cost
  };
  // Measured before training; NaN: it was not.
  struct Probes {
    double cached_step = kUnknown;  // seconds of a step with batches from memory
    // An all-reduce of gradients takes latency + bytes * seconds_per_byte when no rank is late.
    double latency = kUnknown, seconds_per_byte = kUnknown;
  };
  int64_t step = 0;
  std::string text = {};               // "verdict: ..."; "": there is none
  std::vector<std::string> also = {};  // the runners-up, as text
  std::vector<Cause> causes = {};      // the first is the verdict; none: nothing is worth changing
  std::vector<std::string> not_measured = {};
  Communication communication = {};
  Probes probes = {};
};

// The parts of Communication: NAME_seconds in JSON, NAME as a label, and in words.
struct CommunicationPart {
  const char *name, *words;
  double VerdictRecord::Communication::*seconds;
};
inline constexpr CommunicationPart kCommunicationParts[] = {
    {"late", "late rank", &VerdictRecord::Communication::late},
    {"latency", "latency", &VerdictRecord::Communication::latency},
    {"bandwidth", "bandwidth", &VerdictRecord::Communication::bandwidth},
    {"not_overlapped", "not overlapped", &VerdictRecord::Communication::not_overlapped},
    {"other", "other", &VerdictRecord::Communication::other}};

// "communication: 5.3 ms per step = late rank 3.1 + latency 0.2 + bandwidth 0.5 + not overlapped
// 1.1 + other 0.4"; "" where it was not measured.
std::string text_of(const VerdictRecord::Communication&);

// "measured before training: 8.2 ms per step with batches from memory; 0.025 ms + 0.350 ms per MiB
// for an all-reduce"; "" where nothing was.
std::string text_of(const VerdictRecord::Probes&);

}  // namespace dtrain::monitoring
