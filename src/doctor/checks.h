#pragma once

// The checks of `dtrain doctor`: pure functions from the facts of all ranks and the configuration
// of the run that would be started to findings. Each check has a name and one function; the files
// check_*.cpp hold them by subject.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "doctor/finding.h"
#include "doctor/rank_facts.h"

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

struct Check {
  const char* name;
  Outcome (*judge)(const Launch&);
};
using Checks = std::vector<Check>;

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

// ---- for the checks -----------------------------------------------------------------------------
void blame(DoctorFinding&, const RankFacts&);  // adds the rank and its host
void blame(DoctorFinding&, const HostRanks&);  // the host alone: whatever rank runs there
std::string bytes(int64_t count);              // "1.5 GiB"
std::string unseen(
    const Launch&,
    const std::string& host);  // "not visible on node7": why something was not checked

}  // namespace dtrain::doctor
