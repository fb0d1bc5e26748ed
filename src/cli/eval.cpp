// `dtrain eval`: metrics of a checkpoint on a split. The checkpoint holds all that is needed; there
// is no config.

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/eval_report.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "cli/table_output.h"
#include "core/error.h"
#include "core/progress_line.h"
#include "dist/agree.h"
#include "job/data_set.h"
#include "job/process_context.h"
#include "job/trained_model.h"
#include "text/strings.h"
#include "train/evaluate.h"
#include "train/precision.h"

namespace dtrain::cli {
namespace {

struct Options {
  job::CheckpointName checkpoint;
  std::string data, split = "test", on_bad_sample;
  int64_t worst = 10;
  InferenceOptions inference;
  TableOutput output;
};

// The samples to evaluate, of the file that the model was trained on or of another one.
job::DataSet open_samples(job::ProcessContext& process, const Options& options,
                          const job::TrainedModel& model) {
  job::DataSet data;
  dist::agree(process.host, [&] {
    data = job::open_data(process.prober, model, options.data);
    job::check_data(*data.store, *model.task, model.config.data);
    if (data.ids(options.split).empty()) {
      throw DataError(str(data.store->origin().path().string(), " has no samples in its ",
                          options.split, " split (try --split)"));
    }
  });
  return data;
}

EvalReport report_of(const train::Evaluation& evaluation, const job::TrainedModel& model,
                     const data::Store& store, train::Precision precision) {
  EvalReport report{.checkpoint = model.checkpoint,
                    .chosen = model.chosen,
                    .data = store.origin().path().string(),
                    .protocol = store.origin().attribute("protocol"),
                    .task = str(model.config.task),
                    .network = str(model.config.model.name),
                    .precision = train::to_string(precision),
                    .stats = evaluation.stats};
  if (evaluation.bad_samples > 0) {
    report.warnings.push_back(
        evaluation.bad_samples == 1
            ? "1 sample that cannot be read is left out"
            : str(evaluation.bad_samples, " samples that cannot be read are left out"));
  }
  for (const train::WorstSample& sample : evaluation.worst) {
    report.worst.push_back({sample.id, sample.error, store.origin().source(sample.id)});
  }
  return report;
}

int eval(job::ProcessContext& process, Options& options) {
  dist::Communicator& host = process.host;
  const InferenceOptions& how = options.inference;
  job::TrainedModel model =
      open_model(process, {.checkpoint = options.checkpoint,
                           .how = how,
                           .on_bad_sample = value_named<config::OnBadSample>(options.on_bad_sample),
                           .out = options.output.file(),
                           .replace = options.output.force(),
                           .inputs = {.files = {options.data, how.module_file}, .folders = {}}});
  const job::DataSet data = open_samples(process, options, model);
  const train::Precision precision = place_on_device(process, model, how.amp);
  options.output.open(host, {.files = {data.store->origin().path()}, .folders = {}});
  ProgressLine line(ProgressLine::Last::kOfLongWork);
  const std::vector<int64_t>& ids = data.ids(options.split);
  const train::Evaluation evaluation =
      train::evaluate(*model.task, *data.store, ids, options.split,
                      {.batch_size = how.batch_size,
                       .threads = job::reader_threads(how.workers, process.cores),
                       .verify = how.verify,
                       .skip_bad = model.config.data.skips_bad_samples(),
                       .precision = precision,
                       .device = process.device,
                       .worst = options.worst,
                       .report = [&](const Progress& p) { line.show(p); },
                       .stage = "evaluating"},
                      host);
  dist::agree_on_rank0(host, [&] {
    if (!evaluation.stats.metrics.empty()) return;
    throw DataError(str("all ", ids.size(), " samples of the ", options.split, " split of ",
                        data.store->origin().path().string(), " were left out; why is said above"));
  });
  const auto report = [&] { return report_of(evaluation, model, *data.store, precision); };
  options.output.write(
      host, [&] { return to_text(report()); }, [&] { return to_json(report()); });
  return 0;
}

}  // namespace

int run_eval(const Arguments& arguments) {
  CLI::App app("metrics of a checkpoint on a split", "dtrain eval");
  Options options;
  add_checkpoint_options(app, &options.checkpoint);
  add_dataset_option(app, &options.data,
                     "a dtrain HDF5 file, or NAME of `dtrain convert NAME`: data/NAME.h5; default: "
                     "the one it was trained on, by its checksum");
  app.add_option("--split", options.split, "train, val or test")
      ->check(CLI::IsMember({"train", "val", "test"}))
      ->capture_default_str();
  options.inference.add_verify(app);
  app.add_option("--data.on_bad_sample", options.on_bad_sample,
                 "stop at a sample that cannot be read, or skip it and say how many; default: as "
                 "in training")
      ->check(CLI::IsMember({"stop", "skip"}));
  options.inference.add_to(app);
  add_number(app, "--worst", options.worst, 0, 1 << 20,
             "name this many samples with the largest errors");
  options.output.add_to(
      app, "write all of it, tables too, as JSON to this file; -: to the standard output, alone");
  if (!parse(app, arguments)) return 0;
  return run_on_device(options.inference,
                       [&](job::ProcessContext& process) { return eval(process, options); });
}

}  // namespace dtrain::cli
