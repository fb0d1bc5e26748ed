// `dtrain predict`: a checkpoint's predictions for files, folders, patterns or a dtrain HDF5 file,
// as rows of text. Each rank predicts a share of every step. Rank 0 writes the rows of a step
// before the next step, so that memory stays bounded and the output needs no shared file system.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <type_traits>

#include "cli/commands.h"
#include "cli/earlier_output.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "cli/rows_text.h"
#include "cli/speed_report.h"
#include "convert/files_store.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/output_guard.h"
#include "core/progress_line.h"
#include "core/stopwatch.h"
#include "core/strings.h"
#include "data/loader/loader.h"
#include "data/order/shard.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "formats/list_files.h"
#include "job/data_set.h"
#include "job/placement.h"
#include "job/process_context.h"
#include "job/signals.h"
#include "job/trained_model.h"
#include "train/precision.h"

namespace dtrain::cli {
namespace {

static_assert(std::is_same_v<tasks::Row, std::vector<Cell>>);

using Clock = std::chrono::steady_clock;

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

// What raw files must be. The inputs of a TorchScript network are pictures or sequences.
checkpoint::Metadata file_metadata(const job::TrainedModel& model) {
  checkpoint::Metadata metadata = model.metadata;
  if (catalog::row(model.config.task).network_from_file &&
      model.task->samples().kind == data::SampleSpec::Kind::kRows) {
    metadata["task"] = "sequence";
  }
  return metadata;
}

// The files that the inputs name on rank 0, on every rank. File names may hold any byte
// except zero.
std::vector<std::string> agreed_inputs(dist::Communicator& host, const Options& options,
                                       const job::TrainedModel& model) {
  std::string joined;
  dist::agree_on_rank0(host, [&] {
    formats::ToolFiles left_out;
    joined = join(formats::list_files(options.inputs, convert::raw_extensions(file_metadata(model)),
                                      left_out),
                  std::string_view("\0", 1));
    formats::log_left_out(left_out);
  });
  return split(dist::broadcast_object(host, joined), '\0');
}

struct Samples {
  std::unique_ptr<data::Store> store;
  std::vector<int64_t> ids;
  bool converted = false;  // an HDF5 file
};

void check_layout(const Options& options, const job::TrainedModel& model) {
  if (options.layout.empty() || model.metadata.at("task") == "headpose") return;
  throw UsageError(str("--layout is for task headpose; this network was trained for task ",
                       model.metadata.at("task")));
}

void tell_how_heads_are_found(const Options& options, const job::TrainedModel& model) {
  if (!options.layout.empty() || model.metadata.at("task") != "headpose") return;
  log::info(
      "each picture is taken as the crop of one head, and its middle square is used. The pictures "
      "of a published set "
      "need --layout 300wlp, aflw2000 or biwi, which crops them as `dtrain convert` does. Crop "
      "other photos to a "
      "square around the head first");
}

Samples open_samples(data::ProbeProcess& prober, const Options& options,
                     const job::TrainedModel& model, const std::vector<std::string>& files) {
  Samples samples;
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
    samples.store = convert::open_files(file_metadata(model), files, options.layout);
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

// Which rank predicts which samples. Ranks take whole batches in turn, so that the samples of a
// batch, and with them the bits of the predictions, do not depend on the number of ranks.
struct Turns {
  int64_t count = 0, batch_size = 1;
  data::Shard shard;

  int64_t steps() const { return data::steps_per_epoch(count, batch_size * shard.size); }
  int64_t samples(int64_t step) const {  // of all ranks
    return data::global_batch(step, count, batch_size * shard.size).positions.size();
  }
  data::Range positions(int64_t step) const {  // of this rank; may be empty
    const int64_t begin = std::min(count, (step * shard.size + shard.rank) * batch_size);
    return {begin, std::min(count, begin + batch_size)};
  }
  std::vector<int64_t> own(const std::vector<int64_t>& ids) const {
    std::vector<int64_t> result;
    for (int64_t step = 0; step < steps(); ++step) {
      const data::Range range = positions(step);
      result.insert(result.end(), ids.begin() + range.begin, ids.begin() + range.end);
    }
    return result;
  }
};

std::string input_name(const data::Store& store, int64_t id) {
  std::string source = store.source(id);
  return source.empty() ? str(store.path().string(), "#", id) : source;
}

struct Chunk {
  std::string text;
  int64_t bad = 0;
  double latency = 0;  // seconds from the batch on the device to its rows; 0: no sample
};

// The rows of the `planned` samples in their order; `batch` holds them, or the reason why one was
// left out.
Chunk rows_of(const data::Store& store, std::span<const int64_t> planned, const data::Batch& batch,
              tasks::Task& task, const RowWriter& writer, train::Precision precision,
              at::Device device) {
  Chunk chunk;
  std::vector<tasks::Row> rows;
  if (batch.samples() > 0) {
    const auto begin = Clock::now();
    const at::NoGradGuard no_grad;
    const layers::AutocastGuard autocast = train::autocast_for(precision, device);
    rows = task.predict(batch);
    chunk.latency = seconds_since(begin);
  }
  size_t next = 0;
  for (const int64_t id : planned) {
    if (next < batch.ids.size() && batch.ids[next] == id) {
      chunk.text += writer.row(input_name(store, id), rows[next++]);
    } else {
      const data::Batch::LeftOut& bad = batch.left_out.at(static_cast<size_t>(chunk.bad++));
      chunk.text += writer.error(input_name(store, id), bad.reason);
    }
  }
  return chunk;
}

int predict(job::ProcessContext& process, const Options& options) {
  dist::Communicator& host = process.host;
  const InferenceOptions& how = options.inference;
  const std::filesystem::path out = is_standard_output(options.out) ? "" : options.out;
  const IsEarlierOutput earlier = std::bind_front(is_earlier_output, std::ref(process.prober));
  dist::agree_on_rank0(host, [&] {
    protect(out, inputs_of(options, {}), earlier);
    check_output(out, options.force);
  });
  // A bad sample becomes a row with the reason, also where it would have ended the training.
  const job::TrainedModel model = job::load_model(host, options.checkpoint,
                                                  {.module_file = how.module_file,
                                                   .on_bad_sample = config::OnBadSample::kSkip,
                                                   .device = process.device});
  tasks::Task& task = *model.task;
  const std::vector<std::string> files = agreed_inputs(host, options, model);
  Samples samples;
  train::Precision precision{};
  dist::agree_on_rank0(host, [&] {
    protect(out, {.files = {model.config.model.file}, .folders = {model.checkpoint}});
    protect(out, inputs_of(options, files), earlier);
  });
  dist::agree(host, [&] {
    check_layout(options, model);
    samples = open_samples(process.prober, options, model, files);
    precision = job::choose_precision(how.amp, process.device);
  });
  job::place_on_device(task, precision, process.device);

  const std::atomic<bool>& stop =
      job::install_stop_signals();  // from here on there is a temporary file to remove
  const RowWriter writer(options.format == "csv" ? RowFormat::kCsv : RowFormat::kJsonLines,
                         task.columns());
  std::unique_ptr<RowOutput> output;
  dist::agree_on_rank0(host, [&] {
    output = std::make_unique<RowOutput>(options.out);
    output->write(writer.header());
  });

  const Turns turns{
      static_cast<int64_t>(samples.ids.size()), how.batch_size, {host.rank(), host.size()}};
  const std::vector<int64_t> own_ids = turns.own(samples.ids);
  data::SampleSpec spec = task.samples();
  spec.length_window = 0;  // in the order of the inputs
  std::unique_ptr<data::Loader> loader;
  dist::agree(host, [&] {
    if (own_ids.empty()) return;
    data::LoaderOptions pass = data::one_pass(static_cast<int64_t>(own_ids.size()), how.batch_size);
    pass.threads = job::reader_threads(how.workers, process.cores);
    if (samples.converted) pass.verify = how.verify;  // raw files have no checksums
    pass.skip_bad = true;
    pass.check_targets = false;
    pass.device = process.device;
    loader = std::make_unique<data::Loader>(*samples.store, own_ids, spec, pass, data::Shard{});
  });
  // Rows on the same terminal show the progress themselves.
  const bool rows_are_shown = is_standard_output(options.out) && ::isatty(STDOUT_FILENO) != 0;
  std::optional<ProgressLine> line;
  if (!rows_are_shown) line.emplace(ProgressLine::Last::kOfLongWork);
  Timing timing;
  int64_t bad = 0, done = 0;
  for (int64_t step = 0; step < turns.steps(); ++step) {
    const auto begin = Clock::now();
    const data::Range mine = turns.positions(step);
    Chunk chunk;
    dist::agree(host, [&] {
      if (stop) throw Error("interrupted: the predictions are not whole", job::kExitInterrupted);
      if (mine.size() == 0) return;
      const data::Batch batch = loader->next();
      const auto planned =
          std::span(samples.ids)
              .subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.size()));
      chunk = rows_of(*samples.store, planned, batch, task, writer, precision, process.device);
    });
    const auto texts = dist::all_gather_object(host, chunk.text);
    dist::agree_on_rank0(host, [&] {
      for (const std::string& text : texts) output->write(text);
    });
    bad += chunk.bad;
    done += turns.samples(step);
    if (line) line->show({"predicting", done, turns.count});
    if (step == 0) {
      timing.warm_up = seconds_since(begin);
    } else {
      timing.rest += seconds_since(begin);
      timing.rest_samples += turns.samples(step);
      if (chunk.latency > 0) timing.latencies.push_back(chunk.latency);
    }
  }

  dist::agree(host, [&] { samples.store->check_unchanged(); });
  dist::agree_on_rank0(host, [&] { output->close(); });
  const std::vector<double> latencies = dist::all_gather_values(host, timing.latencies);
  at::Tensor total = at::tensor({bad}, at::kLong);
  host.all_reduce(total, dist::ReduceOp::kSum).wait();
  bad = total.item<int64_t>();
  dist::agree_on_rank0(host, [&] {
    log::plain(speed_report({.checkpoint = model.checkpoint,
                             .chosen = model.chosen,
                             .samples = turns.count,
                             .bad = bad,
                             .batch_size = how.batch_size,
                             .ranks = host.size(),
                             .timing = timing,
                             .latencies = latencies}));
    if (bad > 0)
      throw DataError(
          str(bad, " of ", turns.count, " inputs could not be predicted: their rows say why"));
  });
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
  app.add_option("--layout", options.layout,
                 str("head-pose photos: the published set (", join(convert::head_layouts(), ", "),
                     ") they are from; its annotations beside the pictures give the crop. Default: "
                     "each picture is the "
                     "crop of one head"))
      ->check(CLI::IsMember(convert::head_layouts()));
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
