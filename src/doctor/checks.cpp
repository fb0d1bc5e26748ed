#include "doctor/checks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "text/strings.h"

namespace dtrain::doctor {
namespace {

template <typename T>
void add_new(std::vector<T>& all, const std::vector<T>& more) {
  for (const T& one : more) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
}

bool same_text(const DoctorFinding& a, const DoctorFinding& b) {
  return std::tie(a.check, a.severity, a.cause, a.evidence, a.fix) ==
         std::tie(b.check, b.severity, b.cause, b.evidence, b.fix);
}

// A fault of all hosts is one finding, not one of each.
void merge(std::vector<DoctorFinding>& all, const DoctorFinding& finding) {
  for (DoctorFinding& known : all) {
    if (!same_text(known, finding)) continue;
    add_new(known.ranks, finding.ranks);
    add_new(known.hosts, finding.hosts);
    return;
  }
  all.push_back(finding);
}

}  // namespace

bool Launch::has_gpus() const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const RankFacts& rank) { return rank.gpu.has_value(); });
}

int HostRanks::threads() const {
  int sum = 0;
  for (const RankFacts* rank : ranks) sum += rank->threads;
  return sum;
}

int HostRanks::readers() const {
  int sum = 0;
  for (const RankFacts* rank : ranks) sum += rank->readers;
  return sum;
}

int HostRanks::busy_threads() const {
  const auto count = static_cast<int>(ranks.size());
  return ranks.front()->gpu ? count + readers() : std::max(count, threads());
}

int HostRanks::cores() const {
  std::set<int> cores;
  for (const RankFacts* rank : ranks) {
    if (!rank->machine.allowed_cores) return 0;
    cores.insert(rank->machine.allowed_cores->begin(), rank->machine.allowed_cores->end());
  }
  return static_cast<int>(cores.size());
}

void Outcome::add(const RankFacts& rank, Severity severity, std::string cause, std::string evidence,
                  std::string fix) {
  findings.push_back({"",
                      severity,
                      std::move(cause),
                      std::move(evidence),
                      std::move(fix),
                      {rank.rank},
                      {rank.node}});
}

void Outcome::add(const HostRanks& host, Severity severity, std::string cause, std::string evidence,
                  std::string fix) {
  findings.push_back(
      {"", severity, std::move(cause), std::move(evidence), std::move(fix), {}, {host.name}});
}

bool Outcome::can_judge(bool known, const std::string& why_not) {
  if (!known) unchecked.push_back(why_not);
  return known;
}

bool Outcome::can_see(bool known, const Launch& launch, const std::string& host) {
  constexpr size_t kMostNamed = 4;
  return known ||
         can_judge(false, hosts_of(launch).size() > kMostNamed ? "not visible on some hosts"
                                                               : "not visible on " + host);
}

std::vector<HostRanks> hosts_of(const Launch& launch) {
  std::vector<HostRanks> hosts;
  std::map<int, size_t> places;
  for (const RankFacts& rank : launch.ranks) {
    const auto [place, is_new] = places.emplace(rank.host, hosts.size());
    if (is_new) hosts.push_back({rank.node, {}});
    hosts[place->second].ranks.push_back(&rank);
  }
  return hosts;
}

bool Diagnosis::blocks() const {
  return std::any_of(findings.begin(), findings.end(), [](const DoctorFinding& finding) {
    return finding.severity == Severity::kBlocks;
  });
}

Diagnosis examine(const Launch& launch) {
  Diagnosis diagnosis;
  for (const Checks& subject :
       {start_checks(), device_checks(), core_checks(), limit_checks(), file_checks()}) {
    for (const Check& check : subject) {
      Outcome outcome = check.judge(launch);
      for (DoctorFinding& finding : outcome.findings) {
        finding.check = check.name;
        merge(diagnosis.findings, finding);
      }
      std::vector<std::string> reasons;
      add_new(reasons, outcome.unchecked);
      for (const std::string& why : reasons) diagnosis.unchecked.push_back({check.name, why});
      if (outcome.findings.empty() && outcome.unchecked.empty())
        diagnosis.right.emplace_back(check.name);
    }
  }
  std::stable_sort(
      diagnosis.findings.begin(), diagnosis.findings.end(),
      [](const DoctorFinding& a, const DoctorFinding& b) { return a.severity < b.severity; });
  return diagnosis;
}

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

}  // namespace dtrain::doctor
