// `dtrain predict`: a checkpoint's predictions for files, folders, patterns or a dtrain HDF5 file,
// as rows of text. Each rank predicts a share of every step. Rank 0 writes the rows of a step
// before the next step, so that memory stays bounded and the output needs no shared file system.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "cli/commands.h"
#include "cli/earlier_output.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "cli/predictor.h"
#include "cli/row_output.h"
#include "cli/rows_text.h"
#include "cli/speed_report.h"
#include "convert/files_store.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/progress_line.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "formats/list_files.h"
#include "job/data_set.h"
#include "job/signals.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

struct Options {
  job::CheckpointName checkpoint;
  std::string out, format = "csv", split = "all", layout;
  bool force = false;
  std::vector<std::string> inputs;
  InferenceOptions inference;
};

// Of what the command names; `more` is what that stands for.
Inputs inputs_of(const Options& options, const std::vector<std::string>& more) {
  Inputs inputs{.files = {options.inference.module_file}, .folders = {}};
  inputs.files.insert(inputs.files.end(), more.begin(), more.end());
  for (const std::string& input : options.inputs) {
    std::error_code code;
    (std::filesystem::is_directory(input, code) ? inputs.folders : inputs.files)
        .emplace_back(input);
  }
  if (!options.layout.empty()) {  // the annotations beside the pictures are read too
    std::set<std::filesystem::path> folders;
    for (const std::string& file : more)
      folders.insert(std::filesystem::absolute(file).parent_path());
    inputs.folders.insert(inputs.folders.end(), folders.begin(), folders.end());
  }
  return inputs;
}

IsEarlierOutput earlier_outputs(job::ProcessContext& process) {
  return std::bind_front(is_earlier_output, std::ref(process.prober));
}

// What raw files must be. The inputs of a TorchScript network are pictures or sequences.
convert::RawSamples raw_samples(const job::TrainedModel& model) {
  const catalog::TaskEntry& task = catalog::row(model.config.task);
  const bool rows = model.task->samples().kind == data::SampleSpec::Kind::kRows;
  return {
      .task = task,
      .sample = task.network_from_file() && rows ? catalog::SampleKind::kSequence : task.sample};
}

// Whether the task has published sets whose annotations crop each picture.
bool takes_crops(const job::TrainedModel& model) {
  return std::ranges::any_of(catalog::data_sets(), [&](const catalog::DataSetEntry& set) {
    return set.cropped && set.task == name_of(model.config.task);
  });
}

// The files that the inputs name on rank 0, on every rank. OutputError if the output would replace
// one of them. File names may hold any byte except zero.
std::vector<std::string> agreed_inputs(job::ProcessContext& process, const Options& options,
                                       const job::TrainedModel& model) {
  std::string joined;
  dist::agree_on_rank0(process.host, [&] {
    formats::ToolFiles left_out;
    const std::vector<std::string> files = formats::list_files(
        options.inputs, convert::raw_extensions(raw_samples(model).sample), left_out);
    formats::log_left_out(left_out);
    if (!is_standard_output(options.out))
      protect(options.out, inputs_of(options, files), earlier_outputs(process));
    joined = join(files, std::string_view("\0", 1));
  });
  return split(dist::broadcast_object(process.host, joined), '\0');
}

void check_layout(const Options& options, const job::TrainedModel& model) {
  if (options.layout.empty()) return;
  const std::string& task = catalog::data_set_named(options.layout)->task;
  if (task == name_of(model.config.task)) return;
  throw UsageError(str("--layout is for task ", task, "; this network was trained for task ",
                       model.config.task));
}

void tell_how_heads_are_found(const Options& options, const job::TrainedModel& model) {
  if (!options.layout.empty() || !takes_crops(model)) return;
  log::info(
      "each picture is taken as the crop of one head, and its middle square is used. The pictures "
      "of a published set need --layout 300wlp, aflw2000 or biwi, which crops them as `dtrain "
      "convert` does. Crop other photos to a square around the head first");
}

PredictInputs open_samples(data::ProbeProcess& prober, const Options& options,
                           const job::TrainedModel& model, const std::vector<std::string>& files) {
  check_layout(options, model);
  PredictInputs samples;
  const auto hdf5 = std::find_if(files.begin(), files.end(),
                                 [](const std::string& f) { return formats::is_hdf5(f); });
  samples.converted = hdf5 != files.end();
  if (samples.converted && files.size() > 1) {
    throw DataError(
        str(*hdf5, " is a data file among ", files.size(), " inputs: predict one data file alone"));
  }
  if (!samples.converted && options.split != "all") {
    throw UsageError(str("--split is for a dtrain HDF5 file; ", files.front(), " is not one"));
  }
  if (samples.converted && !options.layout.empty()) {
    throw UsageError(str("--layout is for raw pictures; the pictures of the data file ",
                         files.front(), " are already cropped"));
  }
  if (samples.converted) {
    job::DataSet data = job::open_data(prober, files.front(), model.config);
    model.task->check(*data.store);
    if (options.split != "all") samples.ids = data.ids(options.split);
    samples.store = std::move(data.store);
  } else {
    samples.store = convert::open_files(raw_samples(model), model.metadata, files, options.layout);
    tell_how_heads_are_found(options, model);
  }
  if (options.split == "all") {
    samples.ids.resize(static_cast<size_t>(samples.store->schema().samples));
    std::iota(samples.ids.begin(), samples.ids.end(), 0);
  }
  if (samples.ids.empty()) {
    throw DataError(str(files.front(), " has no samples", options.split == "all" ? "" : " in its ",
                        options.split == "all" ? "" : options.split + " split (try --split)"));
  }
  return samples;
}

// What all steps took, and how many samples had no prediction.
struct Tally {
  Timing timing;
  int64_t bad = 0;

  void add(int64_t step, double seconds, int64_t samples, const Chunk& chunk) {
    bad += chunk.bad;
    if (step == 0) {
      timing.warm_up = seconds;
      return;
    }
    timing.rest += seconds;
    timing.rest_samples += samples;
    if (chunk.latency > 0) timing.latencies.push_back(chunk.latency);
  }
};

// Predicts step by step; rank 0 writes the rows of a step before the next step. Collective.
Tally predict_all(dist::Communicator& host, Predictor& predictor, RowOutput* output,
                  bool shows_progress, const std::atomic<bool>& stop) {
  const Turns& turns = predictor.turns();
  std::optional<ProgressLine> line;
  if (shows_progress) line.emplace(ProgressLine::Last::kOfLongWork);
  Tally tally;
  int64_t done = 0;
  for (int64_t step = 0; step < turns.steps(); ++step) {
    const auto begin = std::chrono::steady_clock::now();
    Chunk chunk;
    dist::agree(host, [&] {
      if (stop) throw Error("interrupted: the predictions are not whole", job::kExitInterrupted);
      chunk = predictor.rows_of(step);
    });
    const auto texts = dist::all_gather_object(host, chunk.text);
    dist::agree_on_rank0(host, [&] {
      for (const std::string& text : texts) output->write(text);
    });
    const int64_t samples = turns.samples(step);
    done += samples;
    if (line) line->show({"predicting", done, turns.count});
    tally.add(step, seconds_since(begin), samples, chunk);
  }
  return tally;
}

// DataError if a sample had no prediction. Collective.
void report(dist::Communicator& host, const job::TrainedModel& model, const Turns& turns,
            const Tally& tally) {
  const std::vector<double> latencies = dist::all_gather_values(host, tally.timing.latencies);
  at::Tensor total = at::tensor({tally.bad}, at::kLong);
  host.all_reduce(total, dist::ReduceOp::kSum).wait();
  const auto bad = total.item<int64_t>();
  dist::agree_on_rank0(host, [&] {
    log::plain(speed_report({.checkpoint = model.checkpoint,
                             .chosen = model.chosen,
                             .samples = turns.count,
                             .bad = bad,
                             .batch_size = turns.batch_size,
                             .ranks = host.size(),
                             .timing = tally.timing,
                             .latencies = latencies}));
    if (bad > 0)
      throw DataError(
          str(bad, " of ", turns.count, " inputs could not be predicted: their rows say why"));
  });
}

int predict(job::ProcessContext& process, const Options& options) {
  dist::Communicator& host = process.host;
  const InferenceOptions& how = options.inference;
  // A bad sample becomes a row with the reason, also where it would have ended the training.
  job::TrainedModel model = open_model(process, {.checkpoint = options.checkpoint,
                                                 .how = how,
                                                 .on_bad_sample = config::OnBadSample::kSkip,
                                                 .out = options.out,
                                                 .replace = options.force,
                                                 .inputs = inputs_of(options, {}),
                                                 .is_earlier_output = earlier_outputs(process)});
  const std::vector<std::string> files = agreed_inputs(process, options, model);
  PredictInputs samples;
  dist::agree(host, [&] { samples = open_samples(process.prober, options, model, files); });
  const train::Precision precision = place_on_device(process, model, how.amp);

  // From here on there is a temporary file to remove
  const std::atomic<bool>& stop = job::install_stop_signals();
  const RowWriter writer(options.format == "csv" ? RowFormat::kCsv : RowFormat::kJsonLines,
                         model.task->columns());
  std::unique_ptr<RowOutput> output;
  dist::agree_on_rank0(host, [&] {
    output = std::make_unique<RowOutput>(options.out);
    output->write(writer.header());
  });
  std::optional<Predictor> predictor;
  dist::agree(host,
              [&] { predictor.emplace(process, how, *model.task, precision, samples, writer); });
  // Rows on the same terminal show the progress themselves.
  const bool rows_are_shown = is_standard_output(options.out) && ::isatty(STDOUT_FILENO) != 0;
  const Tally tally = predict_all(host, *predictor, output.get(), !rows_are_shown, stop);
  dist::agree(host, [&] { samples.store->origin().check_unchanged(); });
  dist::agree_on_rank0(host, [&] { output->close(); });
  report(host, model, predictor->turns(), tally);
  return 0;
}

}  // namespace

int run_predict(const Arguments& arguments) {
  CLI::App app("predictions of a checkpoint, as CSV or JSON lines", "dtrain predict");
  Options options;
  add_checkpoint_options(app, &options.checkpoint);
  app.add_option("INPUT", options.inputs, "files, folders, patterns, or one dtrain HDF5 file")
      ->required();
  app.add_option("--split", options.split, "of an HDF5 file: train, val, test or all")
      ->check(CLI::IsMember({"train", "val", "test", "all"}))
      ->capture_default_str();
  app.add_option(
         "--layout", options.layout,
         str("head-pose photos: the published set (", join(catalog::cropped_data_sets(), ", "),
             ") they are from; its annotations beside the pictures give the crop. Default: each "
             "picture is the crop of one head"))
      ->check(CLI::IsMember(catalog::cropped_data_sets()));
  options.inference.add_verify(app);
  options.inference.add_to(app);
  app.add_option("--format", options.format, "csv or jsonl")
      ->check(CLI::IsMember({"csv", "jsonl"}))
      ->capture_default_str();
  app.add_option("--out", options.out,
                 "file to write, whole or not at all; default: the standard output");
  app.add_flag("--force", options.force, "replace an existing file");
  if (!parse(app, arguments)) return 0;
  return run_on_device(options.inference,
                       [&](job::ProcessContext& process) { return predict(process, options); });
}

}  // namespace dtrain::cli
