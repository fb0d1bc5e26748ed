// `dtrain bench step`: the training step of a run by batch size.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/step_table.h"
#include "cli/table_output.h"
#include "core/error.h"
#include "core/spread.h"
#include "dist/agree.h"
#include "job/plan_inputs.h"
#include "job/step_probe.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::cli {
namespace {

using job::StepProbe;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<int64_t> batch_sizes;  // empty: around that of the run
  int rounds = 3;
  job::StepProbeOptions probe;
  TableOutput output;
};

// One batch size.
struct Row {
  int64_t batch_size = 0;
  std::string out_of_memory;
  std::vector<StepProbe> rounds = {};
};

struct Results {
  std::vector<Row> rows;
  std::string network, precision, device, data;
  int ranks = 1;
  int64_t accumulate = 1, samples = 0;
  int64_t prefetch = 0;
  int threads = 1;                 // loader threads on each rank
  int computing_threads = 1;       // on each rank
  std::vector<double> statistics;  // bytes of batch norm's sums in a micro-step
  std::vector<train::RunPhase> phases;
  bool cached = false;
  std::vector<int64_t> left_out;  // batch sizes for which there are not enough samples
};

// One per rank.
std::vector<MeanStep> by_rank(const Row& row, int ranks) {
  std::vector<MeanStep> steps;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
    std::vector<train::MeasuredSteps> measured;
    for (const StepProbe& round : row.rounds) measured.push_back(round.ranks[rank]);
    steps.push_back(mean_of(measured));
  }
  return steps;
}

MeanStep of_all_ranks(const Row& row) {
  std::vector<train::MeasuredSteps> measured;
  for (const StepProbe& round : row.rounds)
    measured.insert(measured.end(), round.ranks.begin(), round.ranks.end());
  return mean_of(measured);
}

Spread spread_over(const Row& row, double (StepProbe::*value)() const) {
  std::vector<double> values;
  for (const StepProbe& round : row.rounds) values.push_back((round.*value)());
  return spread_of(std::move(values));
}

double median_over(const Row& row, double StepProbe::*value) {
  std::vector<double> values;
  for (const StepProbe& round : row.rounds) values.push_back(round.*value);
  return median_of(std::move(values));
}

double kernel_seconds(const Row& row) { return median_over(row, &StepProbe::kernel_seconds); }
double launch_gap_seconds(const Row& row) {
  return spread_over(row, &StepProbe::launch_gap_seconds).median;
}

bool has_gpu(const Results& results) { return results.device != "cpu"; }

bool without_kernel_time(const Row& row) { return std::isnan(kernel_seconds(row)); }

// Why a row has neither of them; "" if all have them.
std::string why_no_kernel_time(const Results& results) {
  if (!has_gpu(results)) return "no GPU";
  std::vector<std::string> sizes;
  for (const Row& row : results.rows) {
    if (row.out_of_memory.empty() && without_kernel_time(row)) sizes.push_back(str(row.batch_size));
  }
  if (sizes.empty()) return "";
  return str(
      sizes.size() == 1 ? "batch " : "batches of ", join(sizes, ", "),
      ": the GPU had to wait for the host, as in a step of more launches than its queue holds");
}

// Of all rounds; only the loader's time and the deviation are means.
plan::MeasuredBatch mean_micro_step(const Row& row, int threads) {
  plan::MeasuredBatch mean;
  for (const StepProbe& round : row.rounds) {
    const plan::MeasuredBatch one = job::measured_batch(round, threads);
    mean.load += one.load / static_cast<double>(row.rounds.size());
    mean.deviation += one.deviation / static_cast<double>(row.rounds.size());
  }
  return mean;
}

std::string phase_table(const Results& results) {
  const bool gpu = has_gpu(results);
  TextRow header = {"batch", "rank", "samples/s", "min", "max"};
  add_headings(header);
  if (results.cached) header.emplace_back("cached");
  if (gpu) header.insert(header.end(), {"kernels", "gap"});
  std::vector<TextRow> rows;
  for (const Row& row : results.rows) {
    if (!row.out_of_memory.empty()) {
      rows.push_back({str(row.batch_size), "", "out of memory"});
      continue;
    }
    const Spread rate = spread_over(row, &StepProbe::samples_per_second);
    TextRow all = {str(row.batch_size), results.ranks == 1 ? "0" : "all", fixed(rate.median, 1),
                   fixed(rate.low, 1), fixed(rate.high, 1)};
    add_times(all, of_all_ranks(row));
    if (results.cached) all.push_back(milliseconds(median_over(row, &StepProbe::cached_seconds)));
    if (gpu) {
      for (const double seconds : {kernel_seconds(row), launch_gap_seconds(row)}) {
        all.push_back(std::isnan(seconds) ? "-" : milliseconds(seconds));
      }
    }
    rows.push_back(std::move(all));
    if (results.ranks == 1) continue;
    const std::vector<MeanStep> steps = by_rank(row, results.ranks);
    for (const size_t rank : ranks_to_show(steps)) {
      TextRow one = {"", str(rank), "", "", ""};
      add_times(one, steps[rank]);
      rows.push_back(std::move(one));
    }
  }
  return text_table(header, rows);
}

std::string memory_table(const Results& results) {
  const auto shown = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  std::vector<TextRow> rows;
  for (const Row& row : results.rows) {
    if (!row.out_of_memory.empty()) continue;
    const train::StepMemory& memory = row.rounds.front().memory;
    TextRow cells = {str(row.batch_size)};
    for (const auto& [name, bytes] : train::kMemoryKinds) cells.push_back(shown(memory.*bytes));
    cells.push_back(shown(memory.total()));
    cells.push_back(shown(row.rounds.back().process_memory));
    rows.push_back(std::move(cells));
  }
  TextRow header = {"batch"};
  for (const auto& [name, bytes] : train::kMemoryKinds) {
    header.emplace_back(bytes == &train::StepMemory::batch ? "batch data" : name);
  }
  header.insert(header.end(), {"sum", "process"});
  return text_table(header, rows);
}

std::string left_out_text(const Results& results) {
  std::vector<std::string> sizes;
  for (const int64_t size : results.left_out) sizes.push_back(str(size));
  return str("batches of ", join(sizes, ", "), ": ", results.ranks,
             results.ranks == 1 ? " rank" : " ranks", " would need more than the ",
             human_count(results.samples), " training samples");
}

std::string phases_text(const Results& results) {
  std::vector<std::string> parts;
  for (const train::RunPhase& one : results.phases) {
    parts.push_back(
        str(one.epochs, one.epochs == 1 ? " epoch of " : " epochs of ", one.phase.name));
  }
  return join(parts, " and ");
}

std::string text_of(const Results& results) {
  std::string text =
      str(results.network, ", ", results.precision, ", ", printable(results.data), "; ",
          results.ranks, results.ranks == 1 ? " rank" : " ranks", " on ", results.device,
          has_gpu(results) ? "" : str(", computing threads ", results.computing_threads),
          ", accumulate ", results.accumulate,
          "\nTimes in ms per optimizer step, means; samples/s of all ranks, median of the rounds\n",
          phase_table(results));
  for (const Row& row : results.rows) {
    if (!row.out_of_memory.empty())
      text += str("batch ", row.batch_size, ": ", row.out_of_memory, "\n");
  }
  const bool any = std::any_of(results.rows.begin(), results.rows.end(),
                               [](const Row& r) { return r.out_of_memory.empty(); });
  if (results.phases.size() > 1)
    text += "step: the mean one of the run, " + phases_text(results) + "\n";
  if (results.cached)
    text += "cached: a step whose batches are in memory, as if loading were free\n";
  const std::string why = why_no_kernel_time(results);
  if (!why.empty()) text += "not measured: kernel time and launch gap (" + why + ")\n";
  if (any) {
    text +=
        str("\nMemory of a rank; activations: the most that one micro-batch holds; process: the "
            "most so far, ",
            has_gpu(results) ? "as LibTorch reserves it" : "all else included", "\n",
            memory_table(results));
  }
  if (!results.left_out.empty()) text += str("left out: ", left_out_text(results), "\n");
  return text;
}

Json json_of(const Row& row, const Results& results) {
  Json json = {{"batch_size", row.batch_size}, {"out_of_memory", row.out_of_memory}};
  if (!row.out_of_memory.empty()) return json;
  const Spread rate = spread_over(row, &StepProbe::samples_per_second);
  const train::StepMemory& memory = row.rounds.front().memory;
  json["global_batch"] = row.batch_size * results.accumulate * results.ranks;
  json["samples_per_second"] = {
      {"median", rate.median}, {"min", rate.low}, {"max", rate.high}, {"rounds", rate.count}};
  json.update(Json::parse(to_json(of_all_ranks(row))));
  if (results.cached) json["cached_step_seconds"] = median_over(row, &StepProbe::cached_seconds);
  json["kernel_seconds"] = kernel_seconds(row);
  json["launch_gap_seconds"] = launch_gap_seconds(row);
  json["not_measured"] =
      without_kernel_time(row) ? Json({"kernel_seconds", "launch_gap_seconds"}) : Json::array();
  json["memory_bytes"] = Json::parse(to_json(memory));
  json["memory_bytes"]["process"] = row.rounds.back().process_memory;
  const plan::MeasuredBatch one_micro = mean_micro_step(row, results.threads);
  const auto micro_steps = static_cast<double>(results.accumulate);
  json["load_seconds"] = one_micro.load * micro_steps;
  json["deviation_seconds"] = one_micro.deviation * std::sqrt(micro_steps);
  json["ranks"] = Json::array();
  for (const MeanStep& step : by_rank(row, results.ranks)) {
    Json one = {{"rank", json["ranks"].size()}};
    one.update(Json::parse(to_json(step)));
    json["ranks"].push_back(std::move(one));
  }
  return json;
}

// Of the largest batch that was measured: the shares hardly depend on it, and are exacter there.
Json buckets_of(const Results& results) {
  Json buckets = Json::array();
  for (auto row = results.rows.rbegin(); row != results.rows.rend() && buckets.empty(); ++row) {
    if (row->rounds.empty()) continue;
    for (const dist::BucketTime& bucket : row->rounds.back().buckets) {
      buckets.push_back({{"bytes", bucket.bytes}, {"ready", bucket.ready}});
    }
  }
  return buckets;
}

std::string json_of(const Results& results) {
  Json rows = Json::array();
  for (const Row& row : results.rows) rows.push_back(json_of(row, results));
  Json phases = Json::array();
  for (const train::RunPhase& one : results.phases) {
    phases.push_back({{"name", one.phase.name}, {"epochs", one.epochs}});
  }
  const auto lacks = [](const Row& row) {
    return !row.out_of_memory.empty() || without_kernel_time(row);
  };
  Json not_measured = Json::array();  // fields that no row has
  if (std::ranges::all_of(results.rows, lacks))
    not_measured = {"kernel_seconds", "launch_gap_seconds"};
  return Json{{"bench", "step"},
              {"network", results.network},
              {"precision", results.precision},
              {"data", results.data},
              {"device", results.device},
              {"ranks", results.ranks},
              {"computing_threads", results.computing_threads},
              {"accumulate", results.accumulate},
              {"samples", results.samples},
              {"prefetch", results.prefetch},
              {"phases", std::move(phases)},
              {"gradient_buckets", buckets_of(results)},
              {"statistics_bytes", results.statistics},
              {"left_out", results.left_out},
              {"not_measured", std::move(not_measured)},
              {"rows", std::move(rows)}}
             .dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         "\n";
}

// Makes a row for each batch size to measure; those that need more samples than there are go to
// `left_out`. UsageError: all of them do.
void add_rows(Results& results, const Options& options, const job::PreparedRun& run) {
  const int64_t most = results.samples / results.ranks;
  const std::vector<int64_t> sizes = options.batch_sizes.empty()
                                         ? job::batch_sizes_around(run.batches.batch_size, most)
                                         : options.batch_sizes;
  for (const int64_t size : sizes) {
    if (size > most) {
      results.left_out.push_back(size);
    } else {
      results.rows.push_back({.batch_size = size, .out_of_memory = ""});
    }
  }
  if (!results.rows.empty()) return;
  throw UsageError(
      str("no batch size is left to measure: ", left_out_text(results), ". ",
          most > 0 ? str("Use --batch-sizes ", most, " or less") : "Start fewer ranks"));
}

int bench(job::ProcessContext& process, const config::Loaded& loaded, Options& options) {
  job::PreparedRun prepared =
      job::plan_training(process, loaded, /*dry_run=*/true).open_data().make_task();
  Results results{.rows = {},
                  .network = str(prepared.config.model.name),
                  .precision = train::to_string(prepared.precision),
                  .device = process.device.is_cpu() ? "cpu" : process.device.str(),
                  .data = prepared.config.data.file,
                  .ranks = process.world.size,
                  .accumulate = prepared.batches.accumulate,
                  .samples = prepared.batches.samples,
                  .prefetch = prepared.config.data.prefetch,
                  .threads = prepared.loader_threads,
                  .computing_threads = process.threads,
                  .statistics = job::statistics_bytes(prepared),
                  .phases = prepared.phases(),
                  .cached = options.probe.cached,
                  .left_out = {}};
  dist::agree(process.host, [&] { add_rows(results, options, prepared); });
  options.output.open(process.host, inputs_of(loaded));
  const job::ConnectedRun run = std::move(prepared).place_on_device().connect();
  for (int round = 0; round < options.rounds; ++round) {
    for (Row& row : results.rows) {
      if (!row.out_of_memory.empty()) continue;
      job::StepProbeOptions probe = options.probe;
      probe.batch_size = row.batch_size;
      probe.accumulate = results.accumulate;
      StepProbe measured = job::probe_step(run, probe);
      row.out_of_memory = measured.out_of_memory;
      if (measured.measured()) row.rounds.push_back(std::move(measured));
    }
  }
  run.end_watch();
  options.output.write(
      process.host, [&] { return text_of(results); }, [&] { return json_of(results); });
  return std::ranges::all_of(results.rows,
                             [](const Row& row) { return !row.out_of_memory.empty(); })
             ? kExitFound
             : 0;
}

}  // namespace

int run_bench_step(const Arguments& arguments) {
  CLI::App app(
      "the training step of a run by batch size: phases of every rank, samples per second, memory "
      "by kind, and on a GPU the time of its kernels and the gap in which it waits for the host. "
      "Nothing is written but quick-start data. Exit code 1: no batch size fits into memory",
      "dtrain bench step");
  Options options;
  constexpr int64_t kMost = int64_t{1} << 30;
  app.add_option("--batch-sizes", options.batch_sizes,
                 "samples per rank and micro-step, joined by commas (default: 1/4, 1/2, 1, 2 and 4 "
                 "times that of the run)")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(whole_number(1, kMost));
  add_number(app, "--rounds", options.rounds, 1, 1000, "how often each is measured");
  add_number(app, "--steps", options.probe.steps, 2, kMost,
             "optimizer steps of each measurement, after the warm-up");
  add_number(app, "--warm-steps", options.probe.warm_steps, 1, kMost, "steps before them");
  add_number(app, "--seconds", options.probe.seconds, 0.01, 3600,
             "of each measurement; fewer steps where they would take longer");
  app.add_flag("--cached", options.probe.cached,
               "measure also, for as long again, steps whose batches are in memory: what the run "
               "would do if loading were free");
  options.output.add_to(app);
  const std::optional<config::Loaded> loaded = parse_with_config(app, arguments);
  if (!loaded) return 0;
  std::sort(options.batch_sizes.begin(), options.batch_sizes.end());
  options.batch_sizes.erase(std::unique(options.batch_sizes.begin(), options.batch_sizes.end()),
                            options.batch_sizes.end());
  return job::launch(loaded->config.device, [&](job::ProcessContext& process) {
    return bench(process, *loaded, options);
  });
}

}  // namespace dtrain::cli
