#pragma once

// Faults planted in made runs (made_run.h), each at a strength: what makes the steps slow, what the
// machine then measures, and what the verdict should say. Table 2 of bench/diagnosis.py and the
// unit tests of the causes use them: also those that no machine at hand can have, such as a GPU
// that is too hot.

#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/made_run.h"
#include "diagnose/verdict.h"
#include "monitoring/gpu_window.h"

namespace dtrain::diagnose {

// A run with a fault that costs `gain` of the time of a step of 100 ms.
struct Planted {
  // Played with the same noise: the measured gain is the ratio of their times
  MadeRun slow, repaired;
  // What the machine says, added to evidence_of(slow)
  std::function<void(RunEvidence&)> measure = {};
};

struct MadeFault {
  const char* name;
  Cause cause;
  int rank;             // -1: all alike
  const char* setting;  // that the verdict should name begins so; "": none does
  std::function<Planted(double gain)> plant;
  bool has_gain = true;  // false: the verdict names a limit, whatever the strength
};

inline constexpr double kStep = 0.1;  // seconds of a step of MadeRun

// A phase of one rank, or of all (-1), takes so much longer in every step.
inline Planted longer(int rank, Phase phase, double seconds) {
  Planted planted;
  planted.slow.slow = [=](size_t r, size_t, Random&, StepTimes& s) {
    if (rank < 0 || r == static_cast<size_t>(rank)) s.phases[index_of(phase)] += seconds;
  };
  return planted;
}

// Now and then, after a step: one in `every`.
inline Planted after_steps(Phase phase, size_t every, double seconds) {
  Planted planted;
  planted.slow.slow = [=](size_t, size_t step, Random&, StepTimes& s) {
    if (step % every == every / 2)
      s.phases[index_of(phase)] += seconds * static_cast<double>(every);
  };
  return planted;
}

// The threads of all ranks, or of one, wait for a core at random moments, `seconds` per step in
// the mean.
inline Planted stalled(int rank, double seconds) {
  Planted planted;
  planted.slow.slow = [=](size_t r, size_t, Random& random, StepTimes& s) {
    if (rank >= 0 && r != static_cast<size_t>(rank)) return;
    const double stall = std::gamma_distribution<double>(4, seconds / 4)(random);
    s.phases[index_of(Phase::kForward)] += stall / 3;
    s.phases[index_of(Phase::kBackward)] += stall * 2 / 3;
  };
  return planted;
}

inline void add_delay(RunEvidence& run, double seconds) {
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kRunDelay] += seconds;
}

// Readings of a GPU under load, as NVML gives them, the last half of them with this reason to
// be slow.
inline Values gpu_readings(double slow, uint64_t reason, double limit, double default_limit) {
  monitoring::GpuWindow window;
  window.set({.persistence = true, .power_limit = limit, .default_power_limit = default_limit});
  constexpr double kClock = 1.8e9;
  monitoring::GpuReading reading{.values = {{Quantity::kGpuUtilization, 0.98},
                                            {Quantity::kGpuPower, 300},
                                            {Quantity::kSmClock, kClock},
                                            {Quantity::kGpuTemperature, 70}},
                                 .throttle_mask = 0};
  for (int i = 0; i < 5; ++i) window.add(reading, 2);  // before it was slow
  window.take();
  reading.values[Quantity::kSmClock] = kClock / slow;
  reading.throttle_mask = reason;
  reading.values[Quantity::kGpuTemperature] = reason == 0x4 ? 70 : 93;
  for (int i = 0; i < 20; ++i) window.add(reading, 2);
  return window.take();
}

inline void forget_gpu(Values& values) {
  for (const Quantity quantity : measure::all_quantities()) {
    if (measure::needs_gpu(measure::row_of(quantity))) values[quantity] = kUnknown;
  }
}

inline void set_healthy_gpu(RunEvidence& run) {
  run.settings.gpu = true;
  run.settings.precision = "bf16";
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kGpuCapability] = 86;
    rank.values[Quantity::kCardWidth] = rank.values[Quantity::kLinkWidth] = 16;
    rank.values[Quantity::kDeviceMemory] = 24e9;
    rank.values[Quantity::kMemoryPeak] = 12e9;
    rank.values[Quantity::kAllocatorRetries] = 0;
    rank.values.set(gpu_readings(1, 0, 350, 350));
  }
}

// A rank whose GPU has a lower clock, or all of them (-1). Kernels that wait for memory do not slow
// down with it: a sixth of the time.
inline Planted slow_clock(int rank, double gain, uint64_t reason, double limit) {
  constexpr double kComputing = 0.09;
  const double slow = 1 + gain * kStep / kComputing, clock = 1 + (slow - 1) * 1.2;
  Planted planted;
  planted.slow.slow = [=](size_t r, size_t, Random&, StepTimes& s) {
    if (rank >= 0 && r != static_cast<size_t>(rank)) return;
    s.phases[index_of(Phase::kForward)] *= slow;
    s.phases[index_of(Phase::kBackward)] *= slow;
  };
  planted.measure = [=](RunEvidence& run) {
    set_healthy_gpu(run);
    for (size_t r = 0; r < run.ranks.size(); ++r) {
      if (rank < 0 || r == static_cast<size_t>(rank))
        run.ranks[r].values.set(gpu_readings(clock, reason, limit, 350));
    }
  };
  return planted;
}

// The GPU finishes kernels as fast as the host launches them, and a batch of twice the size would
// keep it busy.
inline Planted launches(double gain) {
  Planted planted;
  MadeRun run;
  run.h2d = 0;
  run.network = run.optimizer = run.other = 0.0005;
  const double computing = run.forward + run.backward,
               once = run.network + run.optimizer + run.other;
  const double step = computing + once, busy_part = (step / (1 + gain) - once / 2) / computing;
  planted.slow = planted.repaired = run;
  planted.repaired.forward *= busy_part;
  planted.repaired.backward *= busy_part;
  planted.repaired.network /= 2;
  planted.repaired.optimizer /= 2;
  planted.repaired.other /= 2;
  planted.measure = [=](RunEvidence& evidence) {
    set_healthy_gpu(evidence);
    for (RankEvidence& rank : evidence.ranks) {
      set_launch(rank, computing);
      rank.values[Quantity::kGpuUtilization] = 1 - ((1 - busy_part) * computing + run.other) / step;
    }
  };
  return planted;
}

inline Planted skipped_steps(double gain) {
  Planted planted;
  const double skipped = gain / (1 + gain);
  planted.repaired.slow = [=](size_t, size_t, Random&,
                              StepTimes& s) {  // the steps of the same work
    for (double& seconds : s.phases) seconds *= 1 - skipped;
    s.wall *= 1 - skipped;
  };
  planted.repaired.network *= 1 - skipped;
  planted.measure = [=](RunEvidence& run) {
    set_healthy_gpu(run);
    run.settings.precision = "fp16";
    set_loss_scale(run, 1024, skipped);
  };
  return planted;
}

inline Planted rotating(double gain) {
  Planted planted;
  planted.slow.slow = [=](size_t r, size_t step, Random&, StepTimes& s) {
    if (step / 3 % 2 == r) s.phases[index_of(Phase::kForward)] += gain * kStep;
  };
  return planted;
}

inline Planted padded(double gain) {
  // The 90 ms of a step compute its rows, and padding takes half of what as many rows would take:
  // the network skips some of it. A window of 32 leaves a 32nd.
  constexpr double kRows = 1000, kComputing = 0.09;
  const double seconds = gain * kStep / (1 - 1.0 / 32),
               waste = 2 * seconds / (kComputing + seconds);
  const auto with = [=](double share) {
    return [=](size_t, size_t, Random& own, StepTimes& s) {
      const double rows = kRows * std::normal_distribution<double>(1, 0.05)(own);
      const double padding =
          share * kRows * waste / (1 - waste) * std::normal_distribution<double>(1, 0.05)(own);
      s.padded = {.rows = rows, .cells = rows + padding};
      s.phases[index_of(Phase::kBackward)] += kComputing * (rows / kRows - 1) + share * seconds;
    };
  };
  Planted planted = {};
  planted.slow.slow = with(1);
  planted.repaired.slow = with(1.0 / 32);
  return planted;
}

inline Planted measured(Planted planted, std::function<void(RunEvidence&)> measure) {
  planted.measure = std::move(measure);
  return planted;
}

// Those that the machine of the benchmark cannot have.
inline std::vector<MadeFault> recorded_faults() {
  return {
      {"copy to the GPU", Cause::kCopy, -1, "",
       [](double gain) {
         Planted planted = measured(longer(-1, Phase::kH2d, gain * kStep), set_healthy_gpu);
         planted.slow.h2d = planted.repaired.h2d = 0;
         return planted;
       }},
      {"PCIe: 4 lanes of 16, rank 1", Cause::kCopy, 1, "",
       [](double gain) {
         Planted planted = measured(longer(1, Phase::kH2d, gain * kStep), [](RunEvidence& run) {
           set_healthy_gpu(run);
           run.ranks[1].values[Quantity::kLinkWidth] = 4;
         });
         planted.slow.h2d = planted.repaired.h2d = gain * kStep / 3;  // four times as long
         return planted;
       }},
      {"PCIe: 4 lanes of 16, all ranks", Cause::kCopy, -1, "",
       [](double gain) {
         Planted planted = measured(longer(-1, Phase::kH2d, gain * kStep), [](RunEvidence& run) {
           set_healthy_gpu(run);
           for (RankEvidence& rank : run.ranks) rank.values[Quantity::kLinkWidth] = 4;
         });
         planted.slow.h2d = planted.repaired.h2d = gain * kStep / 3;
         return planted;
       }},
      {"launch gap", Cause::kSmallBatch, -1, "--batch-size 64", launches},
      {"power limit, rank 1", Cause::kPower, 1, "nvidia-smi -pl 350",
       [](double gain) { return slow_clock(1, gain, 0x4, 200); }},
      {"power limit, all ranks", Cause::kPower, -1, "nvidia-smi -pl 350",
       [](double gain) { return slow_clock(-1, gain, 0x4, 200); }},
      {"heat, rank 0", Cause::kHeat, 0, "",
       [](double gain) { return slow_clock(0, gain, 0x40, 350); }},
      {"heat, all ranks", Cause::kHeat, -1, "",
       [](double gain) { return slow_clock(-1, gain, 0x40, 350); }},
      {"steal", Cause::kSteal, -1, "",
       [](double gain) {
         return measured(stalled(-1, gain * kStep), [gain](RunEvidence& run) {
           run.hosts[0].values[Quantity::kHostSteal] =
               gain * kStep * run.hosts[0].values[Quantity::kHostCores];
         });
       }},
      {"loss scale", Cause::kLossScale, -1, "--amp bf16", skipped_steps},
      {"float32 on tensor cores", Cause::kPrecision, -1, "--amp auto",
       [](double) {
         return measured({}, [](RunEvidence& run) {
           set_healthy_gpu(run);
           run.settings.precision = "fp32";
         });
       },
       false},
      {"memory of the GPU, rank 1", Cause::kMemoryFull, 1, "--batch-size 16 --accumulate 2",
       [](double) {
         return measured({}, [](RunEvidence& run) {
           set_healthy_gpu(run);
           run.ranks[1].values[Quantity::kMemoryPeak] = 23.9e9;
         });
       },
       false},
      {"page cache", Cause::kPageCache, -1, "",
       [](double gain) {
         return measured(longer(-1, Phase::kDataWait, gain * kStep), [gain](RunEvidence& run) {
           run.settings.epochs = 3;
           run.hosts[0].values[Quantity::kReadAgain] = 64e4;
           for (RankEvidence& rank : run.ranks) {
             rank.values[Quantity::kDiskBytes] = rank.values[Quantity::kSampleBytes];
             rank.values[Quantity::kReadSeconds] =
                 (1 + gain) * kStep - rank.values[Quantity::kAugmentSeconds];
           }
         });
       }},
  };
}

// All ranks wait for batches, which take their readers `seconds` longer than a step
// takes without data.
// `stage`: where the time goes.
inline Planted slow_readers(double seconds, int threads, Quantity stage,
                            std::function<void(RankEvidence&)> measure = {}) {
  return measured(longer(-1, Phase::kDataWait, seconds), [=](RunEvidence& run) {
    for (RankEvidence& rank : run.ranks) {
      rank.values[Quantity::kLoaderThreads] = threads;
      rank.values[Quantity::kReadSeconds] = 0.001;
      rank.values[Quantity::kAugmentSeconds] = 0.002;
      rank.values[stage] = threads * (kStep + seconds) - 0.003;
      if (measure) measure(rank);
    }
  });
}

// Readers and network share it, and it is always busy.
inline std::function<void(RankEvidence&)> on_one_core(double gain) {
  return [gain](RankEvidence& rank) {
    rank.values[Quantity::kCores] = 1;
    rank.values[Quantity::kCpu] = (1 + gain) * kStep;
  };
}

// What a step does once, however many micro-steps it has: half of it per sample with twice as many.
inline Planted once_per_step(double gain, double MadeRun::*part) {
  // Of 98 ms without it, and 2 ms of the other part
  const double seconds = (gain * 0.097 - 0.001) * 2 / (1 - gain);
  Planted planted;
  planted.slow.*part = planted.repaired.*part = seconds;
  planted.repaired.network /= 2;
  planted.repaired.optimizer /= 2;
  return planted;
}

inline Planted messages(double gain, bool by_latency) {
  Planted planted = once_per_step(gain, &MadeRun::network);
  planted.measure = [by_latency, seconds = planted.slow.network](RunEvidence& run) {
    run.network = {.latency = (by_latency ? 0.9 : 0.1) * seconds / 4,
                   .seconds_per_byte = (by_latency ? 0.1 : 0.9) * seconds / 4e6,
                   .messages = 4,
                   .bytes = 4e6};
  };
  return planted;
}

// All gradients leave in one bucket when backward ends. Of 32 buckets, only the last one would be
// on its way then.
inline Planted one_bucket(double gain) {
  constexpr double kBytes = 32e6, kLatency = 20e-6, kBuckets = 32;
  constexpr double kOthers = 0.098;  // seconds of a step without the network
  const double transfer = (gain * (kOthers + kLatency)) / (1 - (1 + gain) / kBuckets);
  Planted planted;
  planted.slow.network = kLatency + transfer;
  planted.repaired.network = kLatency + transfer / kBuckets;
  planted.slow.slow = [](size_t, size_t, Random&, StepTimes& s) {
    s.buckets = {0.060, 0.060, 0.060};
  };
  planted.measure = [=](RunEvidence& run) {
    run.network = {
        .latency = kLatency,
        .seconds_per_byte = transfer / kBytes,
        .messages = 1,
        .bytes = kBytes,
        .plan = {kBuckets, {kBytes}},
        .others = {{1, std::vector<double>(static_cast<size_t>(kBuckets), kBytes / kBuckets)}}};
  };
  return planted;
}

// Readers, messages and the optimizer, of which table 1 has some.
inline std::vector<MadeFault> work_faults() {
  return {
      {"too few readers", Cause::kDisk, -1, "--data.workers 2",
       [](double gain) { return slow_readers(gain * kStep, 1, Quantity::kReadSeconds); }},
      {"one disk for two readers", Cause::kDisk, -1, "",
       [](double gain) {
         return slow_readers(gain * kStep, 2, Quantity::kReadSeconds, [](RankEvidence& rank) {
           rank.values[Quantity::kFewSampleSeconds] = 0.004;
           rank.values[Quantity::kManySampleSeconds] = 2 * rank.values[Quantity::kFewSampleSeconds];
         });
       }},
      {"decoding, cores idle", Cause::kDecode, -1, "--data.workers 2",
       [](double gain) {
         return slow_readers(gain * kStep, 1, Quantity::kDecodeSeconds, [gain](RankEvidence& rank) {
           rank.values[Quantity::kCores] = 4;
           rank.values[Quantity::kCpu] += (1 + gain) * kStep;
           set_side_cpu(rank, (1 + gain) * kStep);
         });
       }},
      {"decoding, no core left", Cause::kDecode, -1, "",
       [](double gain) {
         return slow_readers(gain * kStep, 1, Quantity::kDecodeSeconds, on_one_core(gain));
       }},
      {"augmentation, no core left", Cause::kAugment, -1, "",
       [](double gain) {
         return slow_readers(gain * kStep, 1, Quantity::kAugmentSeconds, on_one_core(gain));
       }},
      {"readers in each other's way", Cause::kReaders, -1, "--data.workers 1",
       [](double gain) {
         return slow_readers(gain * kStep, 4, Quantity::kReadSeconds, [](RankEvidence& rank) {
           rank.values[Quantity::kFewSampleSeconds] = 0.004;
           rank.values[Quantity::kManySampleSeconds] = 3 * rank.values[Quantity::kFewSampleSeconds];
         });
       }},
      {"many messages", Cause::kLatency, -1, "--accumulate 2",
       [](double gain) { return messages(gain, true); }},
      {"large messages", Cause::kBandwidth, -1, "--accumulate 2",
       [](double gain) { return messages(gain, false); }},
      {"a busy network", Cause::kNetwork, -1, "--accumulate 2",
       [](double gain) { return once_per_step(gain, &MadeRun::network); }},
      {"one bucket", Cause::kOverlap, -1, "--dist.bucket_mb 1", one_bucket},
      {"optimizer", Cause::kOptimizer, -1, "--accumulate 2",
       [](double gain) { return once_per_step(gain, &MadeRun::optimizer); }},
  };
}

// Those that it can have: table 1 of bench/diagnosis.py has them in real runs.
inline std::vector<MadeFault> machine_faults() {
  const auto by_others = [](double gain) {
    return measured(stalled(-1, gain * kStep), [gain](RunEvidence& run) {
      add_delay(run, gain * kStep);
      run.hosts[0].others_cpu = 0.1;
      for (RankEvidence& rank : run.ranks) set_side_cpu(rank, 0.001);
    });
  };
  return {
      {"late in forward, rank 1", Cause::kLateRank, 1, "",
       [](double g) { return longer(1, Phase::kForward, g * kStep); }},
      {"late in backward, rank 0", Cause::kLateRank, 0, "",
       [](double g) { return longer(0, Phase::kBackward, g * kStep); }},
      {"late host of two", Cause::kLateRank, 2, "",
       [](double gain) {
         Planted planted;
         planted.slow.ranks = planted.repaired.ranks = 4;
         planted.slow.slow = [=](size_t r, size_t, Random&, StepTimes& s) {
           if (r >= 2) s.phases[index_of(Phase::kBackward)] += gain * kStep;
         };
         planted.measure = [](RunEvidence& run) {
           run.hosts.push_back(run.hosts[0]);
           run.hosts[1].name = "slow";
           run.ranks[2].host = run.ranks[3].host = 1;
         };
         return planted;
       }},
      {"rotating", Cause::kRotatingRank, -1, "", rotating},
      {"checkpoints", Cause::kCheckpoint, -1, "--checkpoint.every ",
       [](double gain) {
         return measured(after_steps(Phase::kCheckpoint, 10, gain * kStep),
                         [](RunEvidence& run) { run.settings.checkpoints = 0.1; });
       }},
      {"evaluations", Cause::kEvaluation, -1, "--train.eval_every ",
       [](double gain) {
         return measured(after_steps(Phase::kEval, 25, gain * kStep),
                         [](RunEvidence& run) { run.settings.evaluations = 0.04; });
       }},
      {"padding", Cause::kPadding, -1, "--data.length_window 32", padded},
      {"other processes", Cause::kOversubscribed, -1, "", by_others},
      {"cores that may not be used", Cause::kBinding, -1, "",
       [](double gain) {
         return measured(stalled(-1, gain * kStep), [gain](RunEvidence& run) {
           add_delay(run, gain * kStep);
           run.hosts[0].job_cores = 1;
           run.hosts[0].values[Quantity::kHostIdle] = 0.2;
         });
       }},
      {"CPU limit", Cause::kCpuLimit, -1, "",
       [](double gain) {
         return measured(stalled(-1, gain * kStep), [gain](RunEvidence& run) {
           add_delay(run, gain * kStep);
           for (RankEvidence& rank : run.ranks) rank.values[Quantity::kThrottled] = gain * kStep;
         });
       }},
      {"more threads than cores", Cause::kOversubscribed, -1, "--device.threads 2",
       [](double gain) {  // as other processes are seen: a little of them is always there
         return measured(stalled(-1, gain * kStep), [](RunEvidence& run) {
           add_delay(run, 0.05);
           for (RankEvidence& rank : run.ranks) rank.values[Quantity::kComputeThreads] = 8;
         });
       },
       false},
      {"memory grows, rank 1", Cause::kMemoryGrowth, 1, "",
       [](double) {
         return measured({}, [](RunEvidence& run) {
           for (MemoryPoint& point : run.ranks[1].memory) point.bytes += 2e6 * point.steps;
         });
       },
       false},
      {"batch of 1", Cause::kSmallBatch, -1, "--batch-size ",
       [](double gain) {
         Planted planted;
         MadeRun run;
         run.h2d = run.network = run.other = 0;
         run.optimizer = gain * 0.09;
         planted.slow = planted.repaired = run;
         double larger = 2;  // until it costs little
         while (larger < 16 && run.optimizer / larger > 0.0045) larger *= 2;
         planted.repaired.optimizer /= larger;
         planted.measure = [](RunEvidence& evidence) { evidence.settings.batch_size = 1; };
         return planted;
       }},
  };
}

inline std::vector<MadeFault> all_made_faults() {
  std::vector<MadeFault> all = recorded_faults();
  for (const auto& part : {work_faults(), machine_faults()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// What the verdict names first. Throws std::out_of_range if it names nothing.
inline Cause cause_of(const RunEvidence& run) { return judge(run).findings.at(0).cause; }

}  // namespace dtrain::diagnose
