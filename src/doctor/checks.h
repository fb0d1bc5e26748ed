#pragma once

// The checks of `dtrain doctor`: pure functions from the facts of all ranks and the configuration
// of the run that would be started to findings. Each check has a name and one function; the files
// check_*.cpp hold them by subject.

#include <string>
#include <vector>

#include "config/config.h"
#include "doctor/rank_facts.h"
#include "text/named_enum.h"

namespace dtrain::doctor {

struct Launch {
  config::Config config;         // rank 0's configuration
  std::vector<RankFacts> ranks;  // one per rank, in rank order; at least one

  const RankFacts& first() const { return ranks.front(); }
  bool has_gpus() const;  // any rank computes on one
};

// The ranks of one host, by rank.
struct HostRanks {
  std::string name;
  std::vector<const RankFacts*> ranks;

  const os::Facts& machine() const { return ranks.front()->machine; }
  int threads() const;  // that compute, of all its ranks
  int readers() const;
  // at any time in a run: on GPUs one of each rank and its readers, on a CPU those that compute
  int busy_threads() const;
  int cores() const;  // size of the union of its ranks' masks; 0: unknown
};
std::vector<HostRanks> hosts_of(const Launch&);

// kBlocks: the run would not start, not reach its end, or not train what was asked for. kSlows: it
// would take longer than it has to. kNote: worth knowing.
enum class Severity { kBlocks, kSlows, kNote };
constexpr auto names_of(Severity) { return names("blocks", "slows", "note"); }

struct DoctorFinding {
  std::string check;  // the name of the check that made it
  Severity severity = Severity::kNote;
  std::string cause;     // what is wrong, and what follows from it
  std::string evidence;  // the values that say so
  // First a command, a flag or a variable: what fixes it, or where nothing typed can, what shows
  // it; then words.
  std::string fix;
  std::vector<int> ranks;
  std::vector<std::string> hosts;
};

// What one check found. No findings and nothing unchecked: it looked at all ranks, and all
// is right.
struct Outcome {
  std::vector<DoctorFinding> findings;
  std::vector<std::string> unchecked;  // why something could not be looked at: "no GPU"

  // Adds a finding for a rank and its host, or for a host alone, whatever rank runs there.
  void add(const RankFacts&, Severity, std::string cause, std::string evidence, std::string fix);
  void add(const HostRanks&, Severity, std::string cause, std::string evidence, std::string fix);
  // Return `known`, after they have noted why something could not be looked at if it is false.
  bool can_judge(bool known, const std::string& why_not);
  bool can_see(bool known, const Launch&, const std::string& host);
};

struct Check {
  const char* name;
  Outcome (*judge)(const Launch&);
};
using Checks = std::vector<Check>;

// Check::judge of a function that looks at each rank, or at each host, by itself.
template <void (*judge)(Outcome&, const Launch&, const RankFacts&)>
Outcome of_each_rank(const Launch& launch) {
  Outcome outcome;
  for (const RankFacts& rank : launch.ranks) judge(outcome, launch, rank);
  return outcome;
}
template <void (*judge)(Outcome&, const Launch&, const HostRanks&)>
Outcome of_each_host(const Launch& launch) {
  Outcome outcome;
  for (const HostRanks& host : hosts_of(launch)) judge(outcome, launch, host);
  return outcome;
}

Checks start_checks();   // programs, configurations, data, libraries, clocks, ports, networks
Checks device_checks();  // GPUs and what connects them
Checks core_checks();    // cores, their speed, and who else uses them
Checks limit_checks();   // memory and ulimits
Checks file_checks();    // run folder, disk space, locks

struct Diagnosis {
  // The severest first; equal ones of several ranks and hosts are one
  std::vector<DoctorFinding> findings;
  std::vector<std::string> right;  // names of checks that looked at all ranks and found nothing
  struct Unchecked {
    std::string check, why;
  };
  std::vector<Unchecked> unchecked;

  bool blocks() const;
};
Diagnosis examine(const Launch&);

std::string bytes(int64_t count);  // "1.5 GiB"

}  // namespace dtrain::doctor
