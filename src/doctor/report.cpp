#include "doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/number_text.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"
#include "text/wrap.h"

namespace dtrain::doctor {
namespace {

constexpr size_t kWidth = 100, kColumn = 14;  // line length, and column of the values
constexpr size_t kMostRanks = 16;             // rows of the table

std::string counted(size_t count, const std::string& one, const std::string& many) {
  return str(count, " ", count == 1 ? one : many);
}

// "rank 1 on node1", "ranks 0-3 on node1, node2", "node2"
std::string place(const DoctorFinding& finding) {
  const std::string hosts = join(finding.hosts, ", ");
  if (finding.ranks.empty()) return hosts;
  return str(finding.ranks.size() == 1 ? "rank " : "ranks ", ranges(finding.ranks),
             hosts.empty() ? "" : " on " + hosts);
}

std::string header(const Launch& launch, const Diagnosis& diagnosis) {
  size_t blocks = 0, slows = 0, notes = 0;
  for (const DoctorFinding& finding : diagnosis.findings) {
    ++(finding.severity == Severity::kBlocks  ? blocks
       : finding.severity == Severity::kSlows ? slows
                                              : notes);
  }
  return str(counted(launch.ranks.size(), "rank", "ranks"), " on ",
             counted(hosts_of(launch).size(), "host", "hosts"), ": ",
             counted(blocks, "fault blocks", "faults block"), " the run, ",
             counted(slows, "slows", "slow"), " it, ", counted(notes, "note", "notes"), "\n");
}

std::string rank_table(const Launch& launch) {
  std::vector<TextRow> rows;
  for (const RankFacts& rank : launch.ranks) {
    if (rows.size() == kMostRanks) break;
    const auto& cores = rank.machine.allowed_cores;
    const auto memory =
        rank.gpu ? std::optional(rank.gpu->memory) : os::usable_memory(rank.machine);
    rows.push_back({str(rank.rank), rank.node,
                    rank.gpu              ? str(rank.device, " ", rank.gpu->name)
                    : rank.device.empty() ? "none"
                                          : rank.device,
                    rank.gpu ? rank.gpu->bus_id : "-", memory ? bytes(*memory) : "?",
                    cores ? ranges(*cores) : "?", str(rank.threads), str(rank.readers)});
  }
  using enum Align;
  std::string text =
      text_table({"rank", "host", "device", "bus", "memory", "cores", "threads", "readers"}, rows,
                 {kRight, kLeft, kLeft, kLeft, kRight, kLeft, kRight, kRight});
  if (launch.ranks.size() > kMostRanks)
    text += str("  and ", launch.ranks.size() - kMostRanks, " more (--json lists them)\n");
  return text;
}

std::string entry(const std::string& name, const std::string& value) {
  const std::string start = "    " + name;
  return start + std::string(kColumn - start.size(), ' ') +
         wrap(printable(value), kWidth - kColumn, kColumn) + "\n";
}

std::string described(const DoctorFinding& finding) {
  return str(printable(str(finding.severity, ": ", finding.check, ", ", place(finding))), "\n",
             entry("cause", finding.cause), entry("evidence", finding.evidence),
             entry("fix", finding.fix));
}

std::string finding_table(const std::vector<DoctorFinding>& findings) {
  std::vector<TextRow> rows;
  for (const DoctorFinding& finding : findings)
    rows.push_back({str(finding.severity), finding.check, place(finding), finding.evidence});
  return text_table({"", "check", "where", "evidence"}, rows,
                    {Align::kLeft, Align::kLeft, Align::kLeft, Align::kLeft});
}

// "power cap, PCIe link (no GPU); governor (not visible on node1)"
std::string by_reason(const std::vector<Diagnosis::Unchecked>& unchecked) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const auto& [check, why] : unchecked) {
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& reason) { return reason.first == why; });
    if (known == reasons.end()) {
      reasons.push_back({why, {check}});
    } else {
      known->second.push_back(check);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [why, checks] : reasons)
    parts.push_back(str(join(checks, ", "), " (", why, ")"));
  return join(parts, "; ");
}

}  // namespace

std::string to_text(const Launch& launch, const Diagnosis& diagnosis) {
  std::string text = header(launch, diagnosis) + rank_table(launch);
  if (diagnosis.findings.size() > 3) text += "\n" + finding_table(diagnosis.findings);
  for (const DoctorFinding& finding : diagnosis.findings) text += "\n" + described(finding);
  text += "\n";
  const auto line = [&](const std::string& what) {
    return wrap(printable(what), kWidth, 2) + "\n";
  };
  if (!diagnosis.right.empty()) text += line("right: " + join(diagnosis.right, ", "));
  if (!diagnosis.unchecked.empty()) text += line("not checked: " + by_reason(diagnosis.unchecked));
  return text;
}

std::string to_json(const Launch& launch, const Diagnosis& diagnosis) {
  using Json = nlohmann::ordered_json;
  Json json = {{"kind", "doctor"}, {"blocks", diagnosis.blocks()}, {"findings", Json::array()}};
  for (const DoctorFinding& f : diagnosis.findings) {
    json["findings"].push_back({{"check", f.check},
                                {"severity", std::string(name_of(f.severity))},
                                {"ranks", f.ranks},
                                {"hosts", f.hosts},
                                {"cause", f.cause},
                                {"evidence", f.evidence},
                                {"fix", f.fix}});
  }
  json["right"] = diagnosis.right;
  json["unchecked"] = Json::array();
  for (const auto& [check, why] : diagnosis.unchecked)
    json["unchecked"].push_back({{"check", check}, {"why", why}});
  json["ranks"] = Json::array();
  for (const RankFacts& rank : launch.ranks) json["ranks"].push_back(Json::parse(to_json(rank)));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::doctor
