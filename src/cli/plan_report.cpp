#include "cli/plan_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/step_table.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::cli {
namespace {

using plan::Library;
using plan::Link;
using plan::PlanRow;
using plan::StepForecast;
using Json = nlohmann::ordered_json;

std::string count_of(int64_t count, const char* one, const char* many) {
  return str(human_count(count), " ", count == 1 ? one : many);
}

std::string link_text(const Link& link, bool is_between) {
  std::string text =
      str(printable(link.name), " (", fixed(link.bytes_per_second * 1e-9, 2), " GB/s",
          link.shared  ? " for all ranks of a node"
          : is_between ? " per node"
                       : " per rank");
  if (link.kind == plan::LinkKind::kGiven)
    text += str(", ", fixed(link.hop_seconds * 1e6, 2), " µs a message");
  return text + ")";
}

// The same link between all ranks, wherever they are: the plan knows of no nodes.
bool is_flat(const plan::Fabric& fabric) {
  return fabric.inside.name == fabric.between.name && fabric.ranks_per_node == 1;
}

// What carries the gradients; "" where a measured link between all ranks does not say.
std::string library_text(const plan::Fabric& fabric, bool several_nodes) {
  if (fabric.library == Library::kNccl) return "; NCCL";
  if (fabric.library == Library::kMpi) return "; MPI";
  if (is_flat(fabric)) return "";
  return several_nodes ? "; shared memory within a node, MPI between nodes" : "; shared memory";
}

std::string fabric_text(const PlanReport& report) {
  const plan::Fabric& fabric = report.request.assumptions.fabric;
  const bool one_link = fabric.inside.name == fabric.between.name;
  const bool several =
      std::ranges::any_of(report.rows, [](const PlanRow& row) { return row.nodes > 1; });
  std::string text;
  if (one_link) {
    text = str(link_text(fabric.inside, fabric.ranks_per_node > 1), " between all ranks");
  } else {
    text = str(link_text(fabric.inside, false), " inside a node of ",
               count_of(fabric.ranks_per_node, "rank", "ranks"));
    if (several) text += str(", ", link_text(fabric.between, true), " between nodes");
  }
  text += library_text(fabric, several);
  std::vector<std::string> assumed;
  for (const Link& link : report.interconnect.assumed) {
    if (several || link.in_node()) assumed.push_back(link.name);
  }
  if (!assumed.empty())
    text += str(". Assumed: ", join(assumed, " and "), "; --interconnect names another");
  return text;
}

std::string measured_text(const PlanReport& report) {
  const plan::MeasuredRun& run = report.run;
  std::vector<std::string> sizes;
  for (const plan::MeasuredBatch& batch : run.batches) sizes.push_back(str(batch.samples));
  std::string text =
      str(printable(run.network), ", ", printable(run.precision), ", ", printable(run.data),
          "\nmeasured ", run.source == "here" ? "here" : str("in ", printable(run.source)), ": ",
          count_of(run.ranks, "rank", "ranks"), " on ", printable(run.device),
          ", micro-batches of ", join(sizes, ", "));
  if (report.request.assumptions.speed != 1) {
    text += str("; planned for devices that compute ", report.request.assumptions.speed,
                " times as fast");
  }
  double bytes = 0;
  std::vector<std::string> parts;
  for (const plan::TimedBucket& bucket : run.buckets) {
    bytes += bucket.bytes;
    parts.push_back(str(human_bytes(bucket.bytes), " at ", fixed(100 * bucket.ready, 0), " %"));
  }
  constexpr size_t kShown = 6;
  if (parts.size() > kShown) {
    parts.resize(kShown);
    parts.emplace_back("...");
  }
  return text + str("\ngradients: ", human_bytes(bytes), " in ",
                    count_of(static_cast<int64_t>(run.buckets.size()), "bucket", "buckets"),
                    ", ready during backward: ", join(parts, ", "),
                    "\nplanned on: ", fabric_text(report), "\n");
}

std::string marked(int64_t value, bool estimated) { return str(value, estimated ? "~" : ""); }

std::string time_table(const PlanReport& report) {
  std::vector<TextRow> rows;
  for (const PlanRow& row : report.rows) {
    const train::BatchArithmetic& b = row.batches;
    rows.push_back({str(b.ranks), is_flat(report.request.assumptions.fabric) ? "-" : str(row.nodes),
                    str(b.global_batch), marked(train::largest_micro_batch(b), row.estimated),
                    str(b.accumulate), str(b.steps_per_epoch), milliseconds(row.step.total()),
                    fixed(row.samples_per_second, 1), str(fixed(100 * row.efficiency, 1), " %"),
                    human_duration(row.epoch_seconds),
                    human_duration(row.epoch_seconds * static_cast<double>(b.total_steps) /
                                   static_cast<double>(std::max<int64_t>(1, b.steps_per_epoch)))});
  }
  return text_table({"ranks", "nodes", "global batch", "per rank", "accumulate", "steps/epoch",
                     "step ms", "samples/s", "efficiency", "epoch", "run"},
                    rows);
}

std::string phase_table(const PlanReport& report) {
  std::vector<TextRow> rows;
  for (const PlanRow& row : report.rows) {
    const StepForecast& s = row.step;
    rows.push_back({str(row.batches.ranks), milliseconds(s.data), milliseconds(s.h2d),
                    milliseconds(s.forward), milliseconds(s.backward), milliseconds(s.exposed),
                    milliseconds(s.statistics), milliseconds(s.late), milliseconds(s.optimizer),
                    milliseconds(s.other), milliseconds(s.wire),
                    row.batches.ranks == 1 ? "" : str(fixed(100 * s.hidden, 0), " %"),
                    human_bytes(row.sent.gradients), human_bytes(row.sent.statistics),
                    human_bytes(row.sent.host)});
  }
  return text_table({"ranks", "data", "h2d", "fwd", "bwd", "comm", "norm", "late", "opt", "other",
                     "wire", "hidden", "gradients", "norm sums", "host"},
                    rows);
}

// With those that are read ahead.
std::string_view planned_name(std::string_view kind) { return kind == "batch" ? "batches" : kind; }

std::string memory_table(const PlanReport& report) {
  std::vector<TextRow> rows;
  for (const PlanRow& row : report.rows) {
    const train::StepMemory& m = row.memory;
    TextRow cells = {str(row.batches.ranks)};
    for (const auto& [name, bytes] : train::kMemoryKinds) {
      cells.push_back(human_bytes(static_cast<double>(m.*bytes)));
    }
    cells.push_back(human_bytes(static_cast<double>(m.total())));
    rows.push_back(std::move(cells));
  }
  TextRow header = {"ranks"};
  for (const auto& [name, bytes] : train::kMemoryKinds) header.emplace_back(planned_name(name));
  header.emplace_back("sum");
  return text_table(header, rows);
}

// By more than the plan itself would be.
bool is_far_off(const PlanCheck& check) {
  constexpr double kFactor = 1.5;
  return check.planned > kFactor * check.measured || check.measured > kFactor * check.planned;
}

std::string remarks(const PlanReport& report) {
  std::string text;
  if (std::ranges::any_of(report.rows, &PlanRow::estimated)) {
    text +=
        "~: a micro-batch of this size was not measured; its times lie on a line through those "
        "that were\n";
  }
  for (const auto& [size, missing] : report.run.too_large) {
    text += str("not measured: a micro-batch of ", size,
                ", for which the memory did not suffice: ", printable(missing), "\n");
  }
  if (report.request.memory_bytes == 0) text += "memory: compared with no card; --card names one\n";
  for (const PlanCheck& check : check_plan(report)) {
    text +=
        str("check: ", count_of(report.run.ranks, "rank", "ranks"), " with ", check.samples,
            " each took ", milliseconds(check.measured), " ms, the plan for them is ",
            milliseconds(check.planned), " ms (", check.planned >= check.measured ? "+" : "",
            fixed(100 * (check.planned / check.measured - 1), 1), " %)",
            is_far_off(check)
                ? ": something else used the cores or the link while it was measured; plan again\n"
                : "\n");
  }
  for (const PlanRow& row : report.rows) {
    for (const std::string& note : row.notes)
      text += str(row.batches.ranks, " ranks: ", note, "\n");
    if (!row.blocked.empty())
      text += str(row.batches.ranks, " ranks, BLOCKED: ", row.blocked, "\n");
  }
  return text;
}

Json json_of(const StepForecast& s) {
  return {{"step_seconds", s.total()},
          {"data_seconds", s.data},
          {"h2d_seconds", s.h2d},
          {"forward_seconds", s.forward},
          {"backward_seconds", s.backward},
          {"exposed_seconds", s.exposed},
          {"statistics_seconds", s.statistics},
          {"late_seconds", s.late},
          {"optimizer_seconds", s.optimizer},
          {"other_seconds", s.other},
          {"wire_seconds", s.wire},
          {"hidden_share", s.hidden}};
}

Json json_of(const PlanRow& row) {
  const train::BatchArithmetic& b = row.batches;
  const train::StepMemory& m = row.memory;
  Json json = {{"ranks", b.ranks},
               {"nodes", row.nodes},
               {"global_batch", b.global_batch},
               {"micro_batch", train::largest_micro_batch(b)},
               {"accumulate", b.accumulate},
               {"steps_per_epoch", b.steps_per_epoch},
               {"total_steps", b.total_steps},
               {"estimated", row.estimated},
               {"samples_per_second", row.samples_per_second},
               {"efficiency", row.efficiency},
               {"epoch_seconds", row.epoch_seconds}};
  json.update(json_of(row.step));
  json["sent_bytes"] = {{"gradients", row.sent.gradients},
                        {"statistics", row.sent.statistics},
                        {"host", row.sent.host}};
  for (const auto& [name, bytes] : train::kMemoryKinds)
    json["memory_bytes"][planned_name(name)] = m.*bytes;
  json["memory_bytes"]["sum"] = m.total();
  json["blocked"] = row.blocked;
  json["notes"] = row.notes;
  return json;
}

Json json_of(const Link& link) {
  return {{"name", link.name},
          {"bytes_per_second", link.bytes_per_second},
          {"hop_seconds", link.hop_seconds},
          {"shared", link.shared}};
}

}  // namespace

bool PlanReport::is_blocked() const {
  return std::ranges::any_of(rows, [](const PlanRow& row) { return !row.blocked.empty(); });
}

std::vector<PlanCheck> check_plan(const PlanReport& report) {
  const plan::MeasuredRun& run = report.run;
  const plan::Assumptions& assumptions = report.request.assumptions;
  std::vector<PlanCheck> checks;
  if (run.ranks == 1 || run.source != "here" || assumptions.fabric.inside.name != "measured" ||
      assumptions.fabric.between.name != "measured" || assumptions.speed != 1) {
    return checks;
  }
  for (const plan::MeasuredBatch& batch : run.batches) {
    const std::vector<int64_t> micro(static_cast<size_t>(run.micro_steps), batch.samples);
    checks.push_back({batch.samples, batch.step,
                      plan::forecast_step(run, assumptions, run.ranks, micro).total()});
  }
  return checks;
}

std::string plan_text(const PlanReport& report) {
  const config::Train& train = report.request.train;
  return str(
      measured_text(report),
      report.scaling == plan::Scaling::kKeep
          ? str("the global batch of ", train.global_batch,
                " is kept (--scaling grow: ", train.batch_size, " samples on each rank)")
          : str("the global batch grows with the ranks (--scaling keep: it stays that of one "
                "rank)"),
      "\n\n", time_table(report),
      "\nOne optimizer step in ms: comm, norm and late are waiting, for gradients after backward, "
      "for sums of shared batch norm,\nand for the rank that is late by chance; wire: gradients on "
      "the way, of which backward hides a share.\nThen what a rank sends in a step\n",
      phase_table(report), "\nMemory of a rank; batches: the one at work and those read ahead\n",
      memory_table(report), remarks(report));
}

std::string plan_json(const PlanReport& report) {
  const plan::Assumptions& a = report.request.assumptions;
  Json checks = Json::array(), rows = Json::array(), buckets = Json::array(),
       too_large = Json::array();
  for (const PlanCheck& check : check_plan(report)) {
    checks.push_back({{"micro_batch", check.samples},
                      {"measured_seconds", check.measured},
                      {"planned_seconds", check.planned},
                      {"far_off", is_far_off(check)}});
  }
  for (const plan::TimedBucket& bucket : report.run.buckets) {
    buckets.push_back({{"bytes", bucket.bytes}, {"ready", bucket.ready}});
  }
  for (const auto& [size, missing] : report.run.too_large) {
    too_large.push_back({{"micro_batch", size}, {"out_of_memory", missing}});
  }
  for (const PlanRow& row : report.rows) rows.push_back(json_of(row));
  return Json{{"network", report.run.network},
              {"precision", report.run.precision},
              {"device", report.run.device},
              {"data", report.run.data},
              {"samples", report.run.samples},
              {"measured", report.run.source},
              {"measured_ranks", report.run.ranks},
              {"scaling", name_of(report.scaling)},
              {"library", name_of(a.fabric.library)},
              {"ranks_per_node", a.fabric.ranks_per_node},
              {"inside", json_of(a.fabric.inside)},
              {"between", json_of(a.fabric.between)},
              {"device_speed", a.speed},
              {"contention", a.contention},
              {"gradient_buckets", std::move(buckets)},
              {"too_large", std::move(too_large)},
              {"checks", std::move(checks)},
              {"rows", std::move(rows)}}
             .dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace dtrain::cli
