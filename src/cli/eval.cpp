// `dtrain eval`: metrics of a checkpoint on a split. The checkpoint holds all that is needed; there
// is no config.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/eval_report.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/output_guard.h"
#include "core/progress_line.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "job/data_set.h"
#include "job/placement.h"
#include "job/process_context.h"
#include "job/trained_model.h"
#include "train/evaluate.h"
#include "train/precision.h"

namespace dtrain::cli {
namespace {

struct Options {
  job::CheckpointName checkpoint;
  std::string data, split = "test", on_bad_sample, json;
  bool force = false;
  int64_t worst = 10;
  InferenceOptions inference;
};

int eval(job::ProcessContext& process, const Options& options) {
  dist::Communicator& host = process.host;
  const InferenceOptions& how = options.inference;
  const std::filesystem::path json = is_standard_output(options.json) ? "" : options.json;
  dist::agree_on_rank0(host, [&] {
    protect(json, {.files = {options.data, how.module_file}, .folders = {}});
    check_output(json, options.force);
  });
  job::TrainedModel loaded =
      job::load_model(host, options.checkpoint,
                      {.module_file = how.module_file,
                       .on_bad_sample = value_named<config::OnBadSample>(options.on_bad_sample),
                       .device = process.device});
  tasks::Task& task = *loaded.task;
  config::Config& config = loaded.config;
  job::DataSet data;
  train::Precision precision{};
  dist::agree(host, [&] {
    data = job::open_data(process.prober, loaded, options.data);
    config.data.file = data.store->path().string();
    job::check_data(*data.store, task, config.data);
    precision = job::choose_precision(how.amp, process.device);
    if (data.ids(options.split).empty())
      throw DataError(
          str(config.data.file, " has no samples in its ", options.split, " split (try --split)"));
  });
  const std::vector<int64_t>& ids = data.ids(options.split);
  std::unique_ptr<RowOutput>
      json_output;  // opened before the work, which would be lost where it cannot be written
  dist::agree_on_rank0(host, [&] {
    protect(json, {.files = {config.data.file, config.model.file}, .folders = {loaded.checkpoint}});
    if (!options.json.empty())
      json_output = std::make_unique<RowOutput>(options.json, options.force);
  });
  job::place_on_device(task, precision, process.device);
  ProgressLine line(ProgressLine::Last::kOfLongWork);
  const train::Evaluation evaluation =
      train::evaluate(task, *data.store, ids, options.split,
                      {.batch_size = how.batch_size,
                       .threads = job::reader_threads(how.workers, process.cores),
                       .verify = how.verify,
                       .skip_bad = config.data.skips_bad_samples(),
                       .precision = precision,
                       .device = process.device,
                       .worst = options.worst,
                       .report = [&](const Progress& p) { line.show(p); },
                       .stage = "evaluating"},
                      host);

  dist::agree_on_rank0(host, [&] {
    if (evaluation.stats.metrics.empty()) {
      throw DataError(str("all ", ids.size(), " samples of the ", options.split, " split of ",
                          config.data.file, " were left out; why is said above"));
    }
    EvalReport report{.checkpoint = loaded.checkpoint,
                      .chosen = loaded.chosen,
                      .data = config.data.file,
                      .protocol = data.store->attribute("protocol"),
                      .task = str(config.task),
                      .network = str(config.model.name),
                      .precision = train::to_string(precision),
                      .stats = evaluation.stats,
                      .worst = {},
                      .warnings = {}};
    if (evaluation.bad_samples > 0) {
      report.warnings.push_back(
          evaluation.bad_samples == 1
              ? "1 sample that cannot be read is left out"
              : str(evaluation.bad_samples, " samples that cannot be read are left out"));
    }
    for (const train::WorstSample& sample : evaluation.worst) {
      report.worst.push_back({sample.id, sample.error, data.store->source(sample.id)});
    }
    if (options.json != "-") {
      RowOutput out("-");
      out.write(to_text(report));
      out.close();
    }
    if (!json_output) return;
    json_output->write(to_json(report));
    json_output->close();
  });
  return 0;
}

}  // namespace

int run_eval(const Arguments& arguments) {
  CLI::App app("metrics of a checkpoint on a split", "dtrain eval");
  Options options;
  add_checkpoint_options(app, &options.checkpoint);
  add_dataset_option(app, &options.data,
                     "a dtrain HDF5 file, or NAME of `dtrain convert NAME`: data/NAME.h5; default: "
                     "the one it was trained "
                     "on, by its checksum");
  app.add_option("--split", options.split, "train, val or test")
      ->check(CLI::IsMember({"train", "val", "test"}))
      ->capture_default_str();
  options.inference.add_verify(app);
  app.add_option("--data.on_bad_sample", options.on_bad_sample,
                 "stop at a sample that cannot be read, or skip it and say how many; default: as "
                 "in training")
      ->check(CLI::IsMember({"stop", "skip"}));
  options.inference.add_to(app);
  app.add_option("--worst", options.worst, "name so many samples with the largest errors")
      ->check(whole_number(0, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--json", options.json,
         "write all of it, tables too, as JSON to this file; -: to the standard output, alone")
      ->check(not_empty());
  app.add_flag("--force", options.force, "replace an existing file");
  if (!parse(app, arguments)) return 0;
  return run_on_device(options.inference,
                       [&](job::ProcessContext& process) { return eval(process, options); });
}

}  // namespace dtrain::cli
