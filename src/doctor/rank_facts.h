#pragma once

// What each rank knows of itself, its host and its GPU. All ranks gather their facts, and the
// checks (checks.h) are pure functions of them. Plain values; the same JSON is sent between ranks
// and written by --json.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "os/facts.h"

namespace dtrain::doctor {

// A copy from this rank's GPU to another one that it sees (device/copy_probe.h).
struct PeerFacts {
  std::string bus_id;  // PCI bus id of the other GPU
  std::string result;  // a name of device::CopyResult
  std::string error;
};

// A value that the driver or the card does not report is absent.
struct GpuFacts {
  std::string name, uuid, bus_id;
  int64_t memory = 0;                  // bytes
  std::optional<int64_t> used_memory;  // bytes, all processes; a few hundred MiB are this program's
  std::optional<bool> persistence;
  std::optional<double> power_limit, default_power_limit;  // watts
  std::optional<double> temperature;                       // degrees Celsius
  std::vector<std::string> throttled_by;                   // names of monitoring::kThrottleReasons
  double host_copy_rate = 0;                               // bytes per second; 0: not measured
  os::PcieLink link;                                       // under load
  std::vector<PeerFacts> peers;
};

// What the network of this configuration needs; of rank 0.
struct NetworkFacts {
  int64_t parameters = 0;
  // Bytes in a checkpoint, and in memory while a rank trains
  int64_t model_bytes = 0, optimizer_bytes = 0;
  int64_t batch_bytes = 0;  // one micro-batch as the network reads it; 0: unknown
};

struct RankFacts {
  int rank = 0, local_rank = 0, local_size = 1;
  int host = 0;      // the lowest rank of the host: hosts may share a name
  std::string node;  // the host's name
  int64_t resident_bytes = 0;

  // The start
  std::string program, program_hash;             // path; "": unknown
  std::string versions;                          // job::version_text()
  std::string nccl, driver;                      // versions; "": none
  std::string keys;                              // config::keys_in_common()
  std::map<std::string, std::string> variables;  // environment variables of libraries, if set
  // Seconds ahead of rank 0's clock, and how far off that may be
  double clock_offset = 0, clock_spread = 0;
  // "127.0.0.1:9500", and why no server can listen on it; "": metrics are off
  std::string port, port_problem;

  // The device
  std::string device;  // "cpu" or "cuda:0"; "": none could be chosen
  std::string device_problem;
  int visible_gpus = 0;
  std::optional<GpuFacts> gpu;

  // The host
  os::Facts machine;
  int threads = 1, readers = 1;      // threads that would compute and load
  std::optional<double> other_cpu;   // cores that processes outside of this job keep busy
  std::optional<double> stolen_cpu;  // cores that the hypervisor gave to others

  // The files
  std::string data_file, data_problem;  // "": none is named; why it cannot be used
  std::string data_checksum;            // "": not read
  std::string data_lock = "unknown";    // a name of os::Locking
  os::FileSystemFacts data_system;
  std::optional<os::FileSystemFacts> run_system;  // the run folder's; rank 0 only
  std::string run_lock = "unknown";
  std::optional<NetworkFacts> network;  // rank 0 only
  std::string network_problem;          // why it is not known
  std::string network_refused;          // why the task refuses the data, or the configuration

  std::string variable(const std::string& name) const {  // "": it is not set
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  }
};

std::string to_json(const RankFacts&);
// Error for a text that to_json() did not write
RankFacts rank_facts_from_json(const std::string& text);

}  // namespace dtrain::doctor
