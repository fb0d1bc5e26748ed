// Whether the ranks were started alike, and what the run needs of the network.

#include <algorithm>
#include <cmath>

#include "doctor/checks.h"
#include "job/same_start.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

constexpr double kClockSkew = 0.1;  // seconds: less is not seen in logs and traces

std::vector<job::RankStart> starts_of(const Launch& launch) {
  std::vector<job::RankStart> starts;
  for (const RankFacts& rank : launch.ranks) {
    starts.push_back({.node = rank.node,
                      .program = parse_hex(rank.program_hash).value_or(0),
                      .keys = rank.keys,
                      .data = parse_hex(rank.data_checksum).value_or(0)});
  }
  return starts;
}

// From the host of rank 0 to those that the finding names. A relative path is one from the folder
// of the launch.
std::string copy_to_hosts(const Launch& launch, const std::string& file) {
  const std::string path = file.starts_with("/") ? file : "$PWD/" + file;
  return str("scp ", launch.first().node, ":", path, " HOST:", path,
             " for each HOST that is named here");
}

Outcome check_program(const Launch& launch) {
  Outcome outcome;
  const std::vector<job::RankStart> starts = starts_of(launch);
  for (size_t rank = 0; rank < starts.size(); ++rank) {
    if (starts[rank].program == 0)
      outcome.unchecked.push_back(str("rank ", rank, " cannot read its own binary"));
    const std::string difference = job::other_program(starts, rank);
    if (difference.empty()) continue;
    outcome.add(
        launch.ranks[rank], Severity::kBlocks,
        "the ranks run different programs: their results and their messages may not fit together",
        str(difference, " (", launch.ranks[rank].program, ")"),
        launch.ranks[rank].host == launch.first().host
            ? str("mpirun -np ", launch.ranks.size(), " ", launch.first().program,
                  " ...; one program for all ranks")
            : copy_to_hosts(launch, launch.first().program));
  }
  return outcome;
}

Outcome check_configuration(const Launch& launch) {
  Outcome outcome;
  const std::vector<job::RankStart> starts = starts_of(launch);
  for (size_t rank = 1; rank < starts.size(); ++rank) {
    const std::string difference = job::other_config(starts, rank);
    if (difference.empty()) continue;
    outcome.add(launch.ranks[rank], Severity::kBlocks, "the ranks have different configurations",
                difference,
                str("mpirun -np ", launch.ranks.size(),
                    " dtrain ...; the same flags and the same config file for all ranks"));
  }
  return outcome;
}

Outcome check_data(const Launch& launch) {
  Outcome outcome;
  const std::vector<job::RankStart> starts = starts_of(launch);
  for (size_t rank = 0; rank < starts.size(); ++rank) {
    const RankFacts& facts = launch.ranks[rank];
    if (!facts.data_problem.empty()) {
      outcome.add(facts, Severity::kBlocks, "the data cannot be used", facts.data_problem,
                  "--data.file FILE, with a copy of it on every host");
    } else if (facts.data_file.empty()) {
      outcome.unchecked.emplace_back(
          launch.config.run.resume.empty()
              ? "no data file is named; the quick start would generate one"
              : "a resumed run takes its data from the checkpoint");
    } else if (!launch.first().data_checksum.empty()) {
      const std::string difference = job::other_data(starts, rank);
      if (difference.empty()) continue;
      outcome.add(facts, Severity::kBlocks, "the ranks would train on different data", difference,
                  facts.host == launch.first().host
                      ? str("--data.file ", launch.first().data_file, ", the same for all ranks")
                      : copy_to_hosts(launch, launch.first().data_file));
    }
  }
  return outcome;
}

Outcome check_task(const Launch& launch) {
  Outcome outcome;
  const RankFacts& first = launch.first();
  if (!first.network_refused.empty()) {
    outcome.add(first, Severity::kBlocks,
                "the task cannot be trained on these data with this configuration",
                first.network_refused,
                str("dtrain inspect ", first.data_file,
                    " shows what is in the file; --task, --model.name and --data.file choose"));
  } else if (!first.network) {
    outcome.unchecked.push_back(first.network_problem);
  }
  return outcome;
}

void check_libraries(Outcome& outcome, const Launch& launch, const RankFacts& rank) {
  if (rank.versions == launch.first().versions) return;
  outcome.add(rank, Severity::kSlows,
              "the ranks use different versions of libraries: results may differ",
              str(rank.versions, "; rank 0: ", launch.first().versions),
              "mpirun -x LD_LIBRARY_PATH ..., where it names the libraries on rank 0; else "
              "install the same packages on every host");
}

// What the measurement itself could not tell apart is no skew.
bool is_skew(double seconds, const RankFacts& rank) {
  return std::abs(seconds) >= kClockSkew + rank.clock_spread;
}

// The offset from rank 0 that is right: 0, unless most hosts have another one.
double right_offset(const Launch& launch) {
  std::vector<const RankFacts*> ranks;  // one of each host
  for (const HostRanks& host : hosts_of(launch)) ranks.push_back(host.ranks.front());
  std::ranges::sort(ranks, {}, &RankFacts::clock_offset);
  const RankFacts& lower = *ranks[(ranks.size() - 1) / 2];
  const RankFacts& upper = *ranks[ranks.size() / 2];
  return is_skew(lower.clock_offset, lower) && is_skew(upper.clock_offset, upper)
             ? lower.clock_offset
             : 0;
}

Outcome check_clocks(const Launch& launch) {
  Outcome outcome;
  const double right = right_offset(launch);
  for (const RankFacts& rank : launch.ranks) {
    const double off = rank.clock_offset - right;
    if (!is_skew(off, rank)) continue;
    outcome.add(
        rank, Severity::kNote,
        "the hosts' clocks differ: lines of their logs, metrics and file times do not fit together",
        str("its clock is ", fixed(std::abs(off), 2), " s ", off > 0 ? "ahead of" : "behind",
            " that of ", right == 0 ? "rank 0" : "most hosts"),
        "sudo chronyc makestep");
  }
  if (launch.ranks.size() == 1) outcome.unchecked.emplace_back("one rank");
  return outcome;
}

void check_port(Outcome& outcome, const Launch&, const RankFacts& rank) {
  if (rank.port.empty()) {
    outcome.unchecked.emplace_back("metrics.enabled is false");
  } else if (!rank.port_problem.empty()) {
    const bool taken = rank.port_problem.find("in use") != std::string::npos;
    outcome.add(rank, Severity::kNote,
                taken ? "the port for metrics is taken: the rank would use a free one, which "
                        "runs/targets/ names"
                      : "the rank cannot serve its metrics",
                str(rank.port, ": ", rank.port_problem),
                taken ? "--metrics.port 9600, or another range"
                      : "--metrics.bind 127.0.0.1, or another address of the host");
  }
}

bool is_local_bridge(const std::string& name) {
  return name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("br-") ||
         name.starts_with("cni") || name.starts_with("lxcbr");
}

// MPI and NCCL try each interface that is up. A bridge to containers has an address, and leads to
// no other host.
Outcome check_networks(const Launch& launch) {
  Outcome outcome;
  const std::vector<HostRanks> hosts = hosts_of(launch);
  if (!outcome.can_judge(hosts.size() > 1, "one host")) return outcome;
  for (const HostRanks& host : hosts) {
    const auto& names = host.machine().network_interfaces;
    if (!outcome.can_see(names.has_value(), launch, host.name)) continue;
    const auto bridge = std::find_if(names->begin(), names->end(), is_local_bridge);
    const auto& variables = host.ranks.front()->variables;
    const bool chosen = variables.contains("OMPI_MCA_btl_tcp_if_include") ||
                        variables.contains("OMPI_MCA_btl_tcp_if_exclude");
    if (bridge == names->end() || chosen) continue;
    outcome.add(host, Severity::kNote,
                "MPI and NCCL may try to reach other hosts over a bridge for containers, and hang",
                str("the host has ", *bridge),
                str("export OMPI_MCA_btl_tcp_if_exclude=lo,", *bridge, " NCCL_SOCKET_IFNAME=^lo,",
                    *bridge));
  }
  return outcome;
}

// In shared memory a rank reads the gradients of the others where they are: nothing is sent that
// could be smaller.
Outcome check_wire(const Launch& launch) {
  using config::Backend;
  using config::Wire;
  Outcome outcome;
  const config::Dist& dist = launch.config.dist;
  const bool shares = dist.backend == Backend::kAuto || dist.backend == Backend::kSharedMemory;
  const std::vector<HostRanks> hosts = hosts_of(launch);
  if (dist.wire == Wire::kFp32 || launch.has_gpus() || !shares || launch.ranks.size() == 1 ||
      hosts.size() > 1) {
    return outcome;
  }
  outcome.add(
      hosts.front(), Severity::kNote,
      "gradients are rounded for a network that they do not travel over",
      str("dist.wire is ", dist.wire, ", and all ranks are on one host, whose memory they share"),
      "--dist.wire fp32, the default");
  return outcome;
}

}  // namespace

Checks start_checks() {
  return {{"same program", check_program},
          {"same configuration", check_configuration},
          {"same data", check_data},
          {"task and data", check_task},
          {"same libraries", of_each_rank<check_libraries>},
          {"clock skew", check_clocks},
          {"metrics port", of_each_rank<check_port>},
          {"network interfaces", check_networks},
          {"gradients between ranks", check_wire}};
}

}  // namespace dtrain::doctor
