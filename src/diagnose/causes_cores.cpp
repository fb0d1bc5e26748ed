// Cores that a rank had to wait for.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "diagnose/communication.h"
#include "diagnose/find_causes.h"
#include "diagnose/lateness.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using BySeconds = std::vector<double>;  // seconds per step, one value per rank

constexpr const char* kWithAllCores = "with all cores (mpirun --bind-to none; taskset, cpuset)";

size_t worst_of(const BySeconds& seconds) {
  return static_cast<size_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

double cores_of(const HostEvidence& host) { return host.values[Quantity::kHostCores]; }

// Who kept a rank's network from its cores, in seconds per step of the rank.
struct Waits {
  double stopped = 0;  // the CPU limit of the control group
  double bound = 0;    // idle cores that no rank may use
  double others = 0;   // other processes
  double own = 0;      // other threads of this job

  double sum() const { return stopped + bound + others + own; }
};

// Sums over the ranks of a host.
struct Job {
  double side_cpu = 0, waits = 0, threads = 0, ranks = 0;
};

Job job_on(const RunEvidence& run, int host) {
  Job job;
  for (const RankEvidence& rank : run.ranks) {
    if (rank.host != host) continue;
    job.side_cpu += rank.side_cpu();
    job.waits += rank.values.or_zero(Quantity::kRunDelay);
    job.threads += rank.compute_threads();
    ++job.ranks;
  }
  return job;
}

Waits waits_of(const RunEvidence& run, const RankEvidence& rank) {
  const HostEvidence& host = host_of(run, rank);
  const Job job = job_on(run, rank.host);
  const double idle = host.values[Quantity::kHostIdle];
  Waits waits;
  waits.stopped = rank.values.or_zero(Quantity::kThrottled);
  double left = std::max(0.0, rank.values.or_zero(Quantity::kRunDelay) - waits.stopped);
  if (host.job_cores < cores_of(host) && idle > 0 && job.waits > 0) {
    waits.bound = left * std::min(1.0, idle / job.waits);
    left -= waits.bound;
  }
  // The network waits for a core while other threads run: those of other processes, and the readers
  // of the ranks, whose work has to be done in any case. No thread waits for others longer than
  // they ran. Where the ranks have more threads of the network than cores, these wait for each
  // other, too, and without others share what those took of all cores. Where the job may not use
  // all cores, others run on the rest first.
  const double elsewhere =
      std::max(0.0, or_zero(cores_of(host)) - or_zero(host.job_cores)) * mean_wall(rank.steps);
  const double others = host.others_cpu - (host.job_cores > 0 ? elsewhere : 0);
  if (others > 0) {
    waits.others = job.threads > host.job_cores
                       ? std::min(left, others / host.job_cores)
                       : std::min(others, left * others / (others + job.side_cpu));
  }
  waits.own = left - waits.others;
  return waits;
}

// Of what the threads that communicate waited: in the same proportion as the network's thread,
// `seconds` of `lost`.
double comm_waits(const RankEvidence& rank, double seconds, double lost) {
  return lost > 0 ? rank.values.or_zero(Quantity::kCommDelay) * seconds / lost : 0;
}

// A job that fits on its cores has at most as many waiting threads as others run. What is
// beyond that is due to the job's own threads.
void bound_by_others(const RunEvidence& run, std::vector<Waits>& waits) {
  for (size_t h = 0; h < run.hosts.size(); ++h) {
    const HostEvidence& host = run.hosts[h];
    if (job_on(run, static_cast<int>(h)).threads > host.job_cores) continue;
    double waited = 0;
    for (size_t rank = 0; rank < waits.size(); ++rank) {
      if (run.ranks[rank].host != static_cast<int>(h)) continue;
      waited +=
          waits[rank].others + comm_waits(run.ranks[rank], waits[rank].others, waits[rank].sum());
    }
    if (!(waited > host.others_cpu)) continue;
    for (size_t rank = 0; rank < waits.size(); ++rank) {
      if (run.ranks[rank].host != static_cast<int>(h)) continue;
      const double others = waits[rank].others * host.others_cpu / waited;
      waits[rank].own += waits[rank].others - others;
      waits[rank].others = others;
    }
  }
}

// What is left of the network's time without `seconds` of what the ranks lost in all: the threads
// that communicate wait for the same cores, and all ranks wait for them. No more than what the
// network took beyond its measured cost.
double network_without(const RunEvidence& run, const Communication& split, const BySeconds& seconds,
                       const BySeconds& lost) {
  if (run.settings.gpu || !(split.network() > 0)) return 1;
  double delay = 0;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    delay = std::max(delay, comm_waits(run.ranks[rank], seconds[rank], lost[rank]));
  }
  return 1 - std::min(split.other, delay) / split.network();
}

// What ranks lost for one reason.
struct Loss {
  Cause cause;
  BySeconds seconds;
  const char* what;       // they did
  std::string who;        // kept them from their cores; "": that is said
  const char* otherwise;  // Finding::otherwise
};

// `lost`: with what the ranks lost for other reasons, in the same way.
void add_waits(const RunEvidence& run, const Communication& split, const Loss& loss,
               const BySeconds& lost, Findings& found) {
  const BySeconds& seconds = loss.seconds;
  const size_t rank = worst_of(seconds);
  if (!(seconds[rank] > 0)) return;
  const double step = mean_wall(run.ranks[rank].steps),
               network = network_without(run, split, seconds, lost);
  const double sending = (1 - network) * split.network();
  std::string evidence = of_step(seconds[rank], step) + loss.what;
  if (sending > 0.1 * seconds[rank])
    evidence += str(", and messages ", fixed(1e3 * sending, 1), " ms longer");
  if (!loss.who.empty()) evidence += "; " + loss.who;
  // Where the machine keeps all ranks alike from computing, it is not about one of them.
  const double least = *std::min_element(seconds.begin(), seconds.end());
  found.push_back({.cause = loss.cause,
                   .rank = 2 * least > seconds[rank] ? -1 : rank_of(run, rank),
                   .evidence = std::move(evidence),
                   .otherwise = loss.otherwise,
                   .without = WhatIf{.change = computes_sooner(run.steps(), seconds, lost),
                                     .network = network}});
}

std::string cores_text(double cores) { return str(cores, cores == 1 ? " core" : " cores"); }

std::string others_text(const HostEvidence& host, double step) {
  const double used = or_zero(host.others_cpu) / step;
  return str("other processes use ", fixed(used, used < 0.1 ? 2 : 1), " of ",
             cores_text(cores_of(host)));
}

// More threads than cores: what is left to do would have to be done by fewer threads, so no gain
// can be computed.
void add_own_threads(const RunEvidence& run, const BySeconds& own, Findings& found) {
  constexpr double kMuch = 0.1;  // share of a step; below it, readers may be the reason
  const size_t rank = worst_of(own);
  const RankEvidence& crowded = run.ranks[rank];
  const HostEvidence& host = host_of(run, crowded);
  const Job job = job_on(run, crowded.host);
  const double step = mean_wall(crowded.steps);
  if (!(job.threads > host.job_cores) || own[rank] < kMuch * step) return;
  Finding finding{.cause = Cause::kOversubscribed,
                  .evidence = str(of_step(own[rank], step), " waiting for a core; ", job.ranks,
                                  job.ranks > 1 ? " ranks have " : " rank has ", job.threads,
                                  " threads of the network on ", cores_text(host.job_cores))};
  // (The gain without those, if there is one, would be another line of the same cause.)
  if (or_zero(host.others_cpu) > kMuch * step)
    finding.evidence += ", and " + others_text(host, step);
  const double fitting = std::max(1.0, std::floor(host.job_cores / job.ranks));
  if (crowded.compute_threads() > fitting) {
    finding.setting = str("--device.threads ", fitting);
  } else {
    finding.otherwise = str("start at most ", host.job_cores,
                            host.job_cores == 1 ? " rank" : " ranks", " on this host");
  }
  found.push_back(std::move(finding));
}

// Ranks start as many threads as they have cores, so none of them waits: what more cores would gain
// is not known. `bound`: what they waited for a core that they may not use, by rank; where that is
// a gain, it says more.
void add_few_cores(const RunEvidence& run, const BySeconds& bound, Findings& found) {
  const RankEvidence& rank = run.ranks[longest_computing(run)];
  const HostEvidence& host = host_of(run, rank);
  const double step = mean_wall(rank.steps), idle = host.values[Quantity::kHostIdle] / step;
  const bool computes = !run.settings.gpu && mean_computing(rank.steps) > 0.5 * step;
  if (!computes || !(host.job_cores < cores_of(host)) || !(idle >= 1)) return;
  if (job_on(run, rank.host).threads > host.job_cores)
    return;  // what they wait is known, and is a gain
  if (bound[worst_of(bound)] > kLeastGain * step) return;
  found.push_back({.cause = Cause::kBinding,
                   .evidence = str("the ranks may use ", host.job_cores, " of ", cores_of(host),
                                   " cores, and ", fixed(idle, 1), " are idle"),
                   .otherwise = str("try ", kWithAllCores)});
}

// A GPU that has work does not notice that the thread which feeds it waits for a core: no more than
// the time in which the GPU did nothing can be gained.
double most_to_gain(const RunEvidence& run, const RankEvidence& rank) {
  if (!run.settings.gpu) return std::numeric_limits<double>::infinity();
  return rank.values.knows(Quantity::kGpuUtilization)
             ? std::max(0.0, 1 - rank.values[Quantity::kGpuUtilization]) * mean_wall(rank.steps)
             : 0;
}

}  // namespace

void add_core_causes(const RunEvidence& run, Findings& found) {
  std::vector<Waits> waits;
  for (const RankEvidence& rank : run.ranks) waits.push_back(waits_of(run, rank));
  bound_by_others(run, waits);
  BySeconds stopped, bound, others, own, stolen, lost;
  for (size_t i = 0; i < run.ranks.size(); ++i) {
    const RankEvidence& rank = run.ranks[i];
    const double most = most_to_gain(run, rank);
    stopped.push_back(std::min(most, waits[i].stopped));
    bound.push_back(std::min(most, waits[i].bound));
    others.push_back(std::min(most, waits[i].others));
    own.push_back(std::min(most, waits[i].own));
    lost.push_back(std::min(most, waits[i].sum()));
    const HostEvidence& host = host_of(run, rank);
    stolen.push_back(std::min(
        most, host.values.or_zero(Quantity::kHostSteal) / std::max(1.0, or_zero(cores_of(host)))));
  }
  const Communication split = communication_of(run);
  const RankEvidence& crowded = run.ranks[worst_of(others)];
  const HostEvidence& host = host_of(run, crowded);
  constexpr const char* kWaiting = " waiting for a core";
  add_waits(run, split,
            {Cause::kOversubscribed, others, kWaiting, others_text(host, mean_wall(crowded.steps)),
             "without them"},
            lost, found);
  const HostEvidence& bound_host = host_of(run, run.ranks[worst_of(bound)]);
  add_waits(
      run, split,
      {Cause::kBinding, bound, kWaiting,
       str("the ranks may use ", bound_host.job_cores, " of ", cores_text(cores_of(bound_host))),
       kWithAllCores},
      lost, found);
  add_few_cores(run, bound, found);
  add_own_threads(run, own, found);
  add_waits(run, split,
            {Cause::kCpuLimit, stopped, " stopped by the CPU limit of the control group", "",
             "with a higher limit (cpu.max; resources.limits.cpu in Kubernetes)"},
            lost, found);
  add_waits(run, Communication{},  // what it costs the network is not known
            {Cause::kSteal, stolen, " taken by the hypervisor for other machines", "",
             "on a machine of its own"},
            stolen, found);
}

}  // namespace dtrain::diagnose
