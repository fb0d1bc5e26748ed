// `dtrain bench data`: the loader of a run alone.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/table_output.h"
#include "core/error.h"
#include "dist/agree.h"
#include "dist/launcher.h"
#include "job/data_bench.h"
#include "job/emulation.h"
#include "job/training_job.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::cli {
namespace {

using job::DataBench;
using job::LoadingRate;
using Json = nlohmann::ordered_json;

struct Options {
  job::DataBenchOptions bench;
  std::string accelerator;  // "": none
  TableOutput output;
};

struct Results {
  DataBench bench = {};
  std::optional<job::Emulation> emulation = {};
  std::string file;
  int64_t samples = 0, batch_size = 0, file_bytes = 0;
  int ranks = 1, own_threads = 1;
};

const char* cache_of(const LoadingRate& rate) { return rate.cold ? "cold" : "warm"; }

std::string table_of(const Results& results) {
  std::vector<TextRow> rows;
  for (const LoadingRate& rate : results.bench.rates) {
    const bool loads = rate.threads > 0;
    rows.push_back({loads ? str(rate.threads) : "reads alone", cache_of(rate),
                    fixed(rate.samples_per_second.median, 1), fixed(rate.samples_per_second.low, 1),
                    fixed(rate.samples_per_second.high, 1),
                    fixed(rate.samples_per_second.median * rate.bytes_per_sample * 1e-6, 1),
                    fixed(rate.cpu_seconds_per_sample.median * 1e6, 1),
                    fixed(rate.read_seconds * 1e6, 1)});
    if (!loads) continue;
    rows.back().insert(rows.back().end(),
                       {fixed(rate.decode_seconds * 1e6, 1), fixed(rate.augment_seconds * 1e6, 1),
                        fixed(100 * rate.full_share, 1)});
  }
  return text_table({"threads", "cache", "samples/s", "min", "max", "MB/s", "CPU us", "read us",
                     "decode us", "augment us", "full %"},
                    rows, {Align::kRight, Align::kLeft});
}

std::string emulation_text(const Results& results) {
  const job::Emulation& e = *results.emulation;
  std::string text = str("\n", e.accelerator.name, " takes ", e.accelerator.batch_size,
                         " samples each ", fixed(e.accelerator.compute_seconds * 1e3, 1), " ms (",
                         fixed(e.accelerator.samples_per_second(), 1), " samples/s)\n");
  std::vector<TextRow> rows;
  for (const job::Utilization& one : e.tried) {
    rows.push_back(
        {str(one.accelerators), fixed(100 * one.utilization, 1), fixed(one.samples_per_second, 1)});
  }
  text += text_table({"accelerators", "utilization %", "samples/s"}, rows);
  text += str("This machine feeds ", e.fed, " of them at ",
              fixed(100 * e.accelerator.least_utilization, 0),
              " % utilization or more, with samples of ",
              human_bytes(results.bench.rates.front().bytes_per_sample),
              " (MLPerf Storage: ", human_bytes(static_cast<double>(e.accelerator.sample_bytes)),
              "), read through the page cache that the measurements above have filled\n");
  if (!e.limited_by.empty()) {
    text += str("It may feed more: more of them would need more ", e.limited_by,
                " than this command may use\n");
  }
  return text;
}

std::string text_of(const Results& results) {
  const LoadingRate& best = best_rate(results.bench);
  std::string text =
      str(printable(results.file), ": ", human_count(results.samples),
          " training samples, batches of ", results.batch_size, ", ", results.ranks,
          results.ranks == 1 ? " rank" : " ranks", "; a run would have ", results.own_threads,
          results.own_threads == 1 ? " reader thread" : " reader threads",
          " per rank\nTimes are for one sample, of one thread; CPU is that of the whole process\n",
          table_of(results));
  if (!results.bench.has_cold()) {
    text += results.bench.kept
                ? str("no cold rates: ", fixed(100 * *results.bench.kept, 0),
                      " % of the file stayed in memory after the kernel was asked to drop it\n")
                : std::string(
                      "no cold rates: the kernel does not drop this file from memory, or does not "
                      "say whether it did\n");
  }
  text +=
      str("fastest: ", best.threads, best.threads == 1 ? " thread" : " threads", " per rank, ",
          fixed(best.samples_per_second.median, 1), " samples/s (--workers ", best.threads, ")\n");
  return results.emulation ? text + emulation_text(results) : text;
}

Json json_of(const Spread& spread) {
  return {{"median", spread.median},
          {"min", spread.low},
          {"max", spread.high},
          {"rounds", spread.count}};
}

Json json_of(const job::Emulation& e) {
  Json tried = Json::array();
  for (const job::Utilization& one : e.tried) {
    tried.push_back({{"accelerators", one.accelerators},
                     {"utilization", one.utilization},
                     {"samples_per_second", one.samples_per_second}});
  }
  return {{"accelerator", e.accelerator.name},
          {"batch_size", e.accelerator.batch_size},
          {"compute_seconds", e.accelerator.compute_seconds},
          {"least_utilization", e.accelerator.least_utilization},
          {"fed", e.fed},
          {"limited_by", e.limited_by},
          {"tried", std::move(tried)}};
}

std::string json_of(const Results& results) {
  Json rates = Json::array();
  for (const LoadingRate& rate : results.bench.rates) {
    rates.push_back({{"threads", rate.threads},
                     {"cache", cache_of(rate)},
                     {"samples_per_second", json_of(rate.samples_per_second)},
                     {"cpu_seconds_per_sample", json_of(rate.cpu_seconds_per_sample)},
                     {"bytes_per_sample", rate.bytes_per_sample},
                     {"read_seconds", rate.read_seconds},
                     {"decode_seconds", rate.decode_seconds},
                     {"augment_seconds", rate.augment_seconds},
                     {"full_share", rate.full_share}});
  }
  Json all = {{"bench", "data"},
              {"file", results.file},
              {"file_bytes", results.file_bytes},
              {"samples", results.samples},
              {"batch_size", results.batch_size},
              {"ranks", results.ranks},
              {"own_threads", results.own_threads},
              {"kept_in_cache", results.bench.kept ? Json(*results.bench.kept) : Json()},
              {"rates", std::move(rates)}};
  if (results.emulation) all["emulation"] = json_of(*results.emulation);
  return all.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

int bench(job::ProcessContext& process, const config::Loaded& loaded, Options& options) {
  const job::PreparedRun run =
      job::plan_training(process, loaded, /*dry_run=*/true).open_data().make_task();
  Results results{.file = run.config.data.file,
                  .samples = static_cast<int64_t>(run.data.splits.train.size()),
                  .batch_size = run.batches.batch_size,
                  .ranks = process.world.size,
                  .own_threads = run.loader_threads};
  options.output.open(process.host, inputs_of(loaded));
  if (options.bench.threads.empty())
    options.bench.threads = job::threads_to_compare(process.cores, results.own_threads);
  results.bench = job::bench_data(run, options.bench);
  if (!options.accelerator.empty()) {
    dist::agree(process.host, [&] {
      const double rate = best_rate(results.bench).samples_per_second.median;
      results.emulation = job::emulate(run, job::accelerator_named(options.accelerator), rate,
                                       3 * options.bench.seconds);
    });
  }
  std::error_code unknown;
  results.file_bytes = static_cast<int64_t>(std::filesystem::file_size(results.file, unknown));
  options.output.write(
      process.host, [&] { return text_of(results); }, [&] { return json_of(results); });
  return 0;
}

// --threads is the former name of --worker-counts. Threads of the network, which --threads means
// elsewhere, do nothing here.
Arguments with_worker_counts(Arguments arguments) {
  const std::string former = "--threads";
  for (std::string& word : arguments) {
    if (word == former || word.starts_with(former + "="))
      word.replace(0, former.size(), "--worker-counts");
  }
  return arguments;
}

}  // namespace

int run_bench_data(const Arguments& arguments) {
  CLI::App app(
      "the loader of a run alone: samples and bytes per second by reader threads, from the disk "
      "(cold: the page cache drops the file first) and from memory (warm: the same samples again)",
      "dtrain bench data");
  Options options;
  std::vector<std::string> names;
  for (const job::Accelerator& one : job::accelerators()) names.push_back(one.name);
  app.add_option("--worker-counts", options.bench.threads,
                 "reader threads per rank to compare, joined by commas (default: 1, 2, 4, ... and "
                 "all cores)")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(whole_number(1, 1024));
  add_number(app, "--rounds", options.bench.rounds, 1, 1000, "how often each is measured");
  add_number(app, "--seconds", options.bench.seconds, 0.01, 3600, "of each measurement");
  app.add_option("--emulate", options.accelerator,
                 "how many accelerators of MLPerf Storage this machine feeds (one process): " +
                     join(names, ", "));
  options.output.add_to(app);
  const std::optional<config::Loaded> loaded =
      parse_with_config(app, with_worker_counts(arguments));
  if (!loaded) return 0;
  if (!options.accelerator.empty()) {
    job::accelerator_named(options.accelerator);  // before anything is measured
    if (dist::launcher_size_hint() > 1) {
      throw UsageError(
          "dtrain bench data --emulate is one process that emulates all accelerators: give it "
          "without mpirun");
    }
  }
  return job::launch(loaded->config.device, [&](job::ProcessContext& process) {
    return bench(process, *loaded, options);
  });
}

}  // namespace dtrain::cli
