#include "report/card.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "report/page_parts.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/wrap.h"

namespace dtrain::report {
namespace {

constexpr size_t kLabel = 10;  // columns before a value
constexpr size_t kBar = 30;    // columns of a full bar
constexpr size_t kMostParts = 6;

class Lines {
 public:
  void add(const std::string& label, const std::string& value) {
    if (value.empty()) return;
    lines_.push_back(
        cut_to(label + std::string(label.size() < kLabel ? kLabel - label.size() : 1, ' ') +
                   printable(value),
               kCardColumns, "..."));
  }
  void blank() {
    if (!lines_.empty() && !lines_.back().empty()) lines_.emplace_back();
  }
  // On as many lines as it needs, but no more than `most`.
  void add_wrapped(const std::string& label, const std::string& value, size_t most) {
    const std::vector<std::string> parts =
        split(wrap(printable(value), kCardColumns - kLabel), '\n');
    for (size_t i = 0; i < parts.size() && i < most; ++i) {
      const bool last = i + 1 == most && i + 1 < parts.size();
      // Which add() cuts
      add(i == 0 ? label : "", last ? parts[i] + " " + parts[i + 1] : parts[i]);
    }
  }
  size_t left() const { return lines_.size() < kCardLines ? kCardLines - lines_.size() : 0; }
  std::string text() {
    lines_.resize(std::min(lines_.size(), kCardLines));
    while (!lines_.empty() && lines_.back().empty()) lines_.pop_back();
    return join(lines_, "\n") + "\n";
  }

 private:
  std::vector<std::string> lines_;
};

std::string without_prefix(const std::string& text) {
  constexpr std::string_view kPrefix = "verdict: ";
  return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
}

void add_parts(Lines& lines, const Digest& digest) {
  if (digest.seconds <= 0) return;
  const double largest = *std::ranges::max_element(digest.parts);
  lines.blank();
  Parts sorted = digest.parts;
  std::ranges::sort(sorted, std::greater<>());
  bool first = true;
  for (size_t i = 0; i < kParts; ++i) {
    const double share = digest.parts[i] / digest.seconds;
    if (share < 0.005 || digest.parts[i] < sorted[kMostParts - 1]) continue;
    std::string name = part_name(i);
    name.resize(17, ' ');
    char percent[16];
    std::snprintf(percent, sizeof percent, "%5.1f %% ", 100 * share);
    const auto bar = static_cast<size_t>(std::lround(kBar * digest.parts[i] / largest));
    lines.add(first ? "time" : "", str(name, percent, " ", std::string(bar, '#')));
    first = false;
  }
}

// The gain and the setting, with which the text ends, have a line of their own, because long
// evidence is cut.
void add_first_cause(Lines& lines, const monitoring::VerdictRecord& verdict) {
  const std::string text = verdict.text.empty() ? "none yet" : without_prefix(verdict.text);
  const std::string evidence = verdict.causes.empty() ? "" : verdict.causes[0].evidence;
  const size_t at = evidence.empty() ? std::string::npos : text.find(evidence + "; ");
  const size_t end = at == std::string::npos ? text.size() : at + evidence.size();
  lines.add_wrapped("verdict", text.substr(0, end), 2);
  if (end < text.size()) lines.add("", text.substr(end + 2));
}

void add_verdict(Lines& lines, const RunRecords& run) {
  lines.blank();
  const monitoring::VerdictRecord& verdict = run.verdict;
  add_first_cause(lines, verdict);
  for (size_t i = 1; i < verdict.causes.size(); ++i) {
    const monitoring::VerdictRecord::Cause& cause = verdict.causes[i];
    lines.add("then",
              str(cause.name, cause.rank >= 0 ? str(", rank ", cause.rank) : "",
                  std::isnan(cause.gain) ? "" : str(": +", fixed(100 * cause.gain, 0), " %"),
                  cause.setting.empty() ? "" : " with " + cause.setting,
                  cause.otherwise.empty() ? "" : " " + cause.otherwise));
  }
  if (const std::string split = monitoring::text_of(verdict.communication); !split.empty()) {
    lines.add_wrapped("", split, 2);
  }
  if (!verdict.not_measured.empty()) lines.add("unmeasured", join(verdict.not_measured, "; "));
}

std::string balance_text(const Digest& digest) {
  if (digest.ranks.size() < 2) return "";
  const auto slowest = std::ranges::max_element(digest.ranks, {}, &RankDigest::computing);
  return str("load balance ", fixed(100 * digest.load_balance, 1), " %; rank ", slowest->rank,
             " computes longest, ", fixed(1e3 * slowest->computing, 1), " ms per step");
}

}  // namespace

std::string short_number(double value) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string best_text(const RunRecords& run) {
  if (run.best_metric.empty() || std::isnan(run.best_value)) return "";
  return str(run.best_metric, " ", fixed(run.best_value, 4),
             run.best_step < 0 ? "" : str(" at step ", run.best_step));
}

std::string task_text(const RunRecords& run) {
  const Environment& e = run.environment;
  std::vector<std::string> parts = {
      run.task(), e.network.empty() ? run.setting("model.name") : e.network,
      e.parameters > 0 ? human_count(e.parameters) + " parameters" : "", e.precision};
  std::erase(parts, "");
  return join(parts, ", ");
}

std::string data_text(const RunRecords& run) {
  const Environment& e = run.environment;
  const std::string file = e.data.empty() ? run.setting("data.file") : e.data;
  if (e.train == 0) return file;
  return str(file, ": ", human_count(e.train), " training, ", human_count(e.val), " validation, ",
             human_count(e.test), " test samples");
}

std::string ranks_text(const RunRecords& run) {
  const Environment& e = run.environment;
  if (e.world_size == 0) return "";
  std::vector<std::string> nodes;
  for (const RecordedRank& place : e.ranks) {
    if (std::ranges::find(nodes, place.node) == nodes.end()) nodes.push_back(place.node);
  }
  const std::string where = nodes.empty()       ? ""
                            : nodes.size() == 1 ? " on " + nodes[0]
                                                : str(" on ", nodes.size(), " hosts");
  const std::string device =
      e.ranks.empty() || e.ranks[0].device.empty() ? "" : str(" (", e.ranks[0].device, ")");
  return str(e.world_size, where, device,
             e.global_batch > 0 ? str(", global batch ", e.global_batch) : "",
             e.communicator.empty() || e.world_size == 1 ? "" : ", " + e.communicator);
}

std::string progress_text(const RunRecords& run, const Digest& digest) {
  if (digest.step == 0) return "no step yet";
  std::string epochs = fixed(digest.epochs, digest.epochs == std::floor(digest.epochs) ? 0 : 1);
  std::string text =
      digest.planned_epochs > 0 ? str("epoch ", epochs, " of ", digest.planned_epochs, ", ") : "";
  text += str("step ", digest.step);
  if (digest.planned_steps > 0) text += str(" of ", digest.planned_steps);
  if (digest.seconds > 0) text += ", " + human_duration(digest.seconds);
  return text + (run.saves > 0
                     ? str(", ", run.saves, run.saves == 1 ? " checkpoint" : " checkpoints")
                     : "");
}

std::string speed_text(const Digest& digest) {
  if (std::isnan(digest.samples_per_second)) return "";
  return str(fixed(digest.samples_per_second, 1), " samples/s, ",
             fixed(1e3 * digest.step_seconds, 1), " ms per step (the median of ",
             digest.speeds.size(), digest.speeds.size() == 1 ? " window)" : " windows)");
}

std::string card(const RunRecords& run, const Digest& digest, double now) {
  Lines lines;
  const std::string age =
      std::isnan(run.last_time) ? "" : human_duration(std::max(0.0, now - run.last_time)) + " ago";
  lines.add("run", str(run.name, "  ", run.state, age.empty() ? "" : ", last record " + age));
  lines.add("task", task_text(run));
  lines.add("data", data_text(run));
  lines.add("ranks", ranks_text(run));
  lines.add("progress", progress_text(run, digest));
  lines.add("ended", run.state == RunState::kRunning ? "" : run.reason);
  lines.add("best", best_text(run));
  if (digest.last_test != nullptr) {
    const double value = digest.last_test->metric(run.best_metric);
    if (!std::isnan(value)) lines.add("test", str(run.best_metric, " ", fixed(value, 4)));
  }
  lines.add("speed", speed_text(digest));
  if (!std::isnan(digest.joules_per_sample)) {
    lines.add("energy", str(short_number(digest.joules_per_sample), " J per sample, all GPUs"));
  }
  add_parts(lines, digest);
  lines.add("balance", balance_text(digest));
  add_verdict(lines, run);
  for (const std::string& gap : run.gaps) {
    if (lines.left() > 1) lines.add("left out", gap);
  }
  return lines.text();
}

}  // namespace dtrain::report
