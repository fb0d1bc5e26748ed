#pragma once

// What a rank and its host do between two calls of sample(): loader, cores and memory. What this
// kernel does not tell is left unknown. Thread-safety: none; the training thread owns it.

#include <string>

#include "data/loader/loader_stats.h"
#include "measure/rank_sample.h"
#include "os/counters.h"
#include "os/facts.h"

namespace dtrain::measure {

class ResourceMeter {
 public:
  // `cores`: that this rank may use. `gpu`: the PCI bus id of its GPU, "" on the CPU.
  explicit ResourceMeter(int cores, const std::string& gpu = "");

  // Since the last call, or since the meter was made; without steps. `loader`: Loader::stats() now.
  RankSample sample(const data::LoaderStats& loader);

 private:
  void read_free_memory(double now);
  void read_link(double now);

  os::CounterReader reader_;
  os::ProcessCounters process_;
  os::MachineCounters machine_;
  data::LoaderStats loader_;
  int cores_;
  std::string gpu_;
  os::PcieLink link_ = {};
  int link_generation_ = 0;  // the highest so far: an idle GPU lowers it
  // When they were read last, in seconds of the steady clock; 0: never.
  double link_at_ = 0, free_memory_at_ = 0;
  double free_memory_ = kUnknown;  // bytes
};

}  // namespace dtrain::measure
