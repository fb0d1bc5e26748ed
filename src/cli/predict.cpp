// `dtrain predict`: a checkpoint's answers for files, folders, patterns or a dtrain HDF5 file, as rows of text. Each
// rank takes a share of every step; rank 0 writes the rows of a step before the next one, so that memory stays bounded
// and no file system needs to be shared for the output.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <numeric>
#include <type_traits>

#include "cli/commands.h"
#include "cli/inference_options.h"
#include "cli/launch.h"
#include "cli/loaded_model.h"
#include "cli/options.h"
#include "cli/percentiles.h"
#include "cli/row_output.h"
#include "cli/rows_text.h"
#include "cli/signals.h"
#include "convert/files_store.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/hdf5/file_store.h"
#include "data/loader/loader.h"
#include "data/order/shard.h"
#include "data/order/splits.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "formats/list_files.h"
#include "models/models.h"
#include "train/autocast.h"
#include "train/device.h"
#include "train/precision.h"

namespace dtrain::cli {
namespace {

static_assert(std::is_same_v<tasks::Row, std::vector<Cell>>);

using Clock = std::chrono::steady_clock;

struct Options {
  std::string path, out, format = "csv", split = "all";
  bool force = false;
  std::vector<std::string> inputs;
  InferenceOptions inference;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What raw files must be. Those of a network of one's own are pictures or sequences.
checkpoint::Metadata file_metadata(const LoadedModel& model) {
  checkpoint::Metadata metadata = model.metadata;
  if (model.config.task == "module" && model.task->samples().kind == data::SampleSpec::Kind::kRows) {
    metadata["task"] = "sequence";
  }
  return metadata;
}

// What is asked for, as rank 0 sees it: the same on every rank. File names hold anything but a zero byte.
std::vector<std::string> agreed_inputs(dist::Communicator& host, const Options& options, const LoadedModel& model) {
  std::string joined;
  dist::agree_on_rank0(host, [&] {
    joined = join(formats::list_files(options.inputs, convert::raw_extensions(file_metadata(model))),
                  std::string_view("\0", 1));
  });
  return split(dist::broadcast_object(host, joined), '\0');
}

struct Samples {
  std::unique_ptr<data::Store> store;
  std::vector<int64_t> ids;
  bool converted = false;  // an HDF5 file
};

Samples open_samples(const Options& options, const LoadedModel& model, const std::vector<std::string>& files) {
  Samples samples;
  const auto hdf5 = std::find_if(files.begin(), files.end(), [](const std::string& f) { return formats::is_hdf5(f); });
  samples.converted = hdf5 != files.end();
  if (samples.converted && files.size() > 1) {
    throw DataError(str(*hdf5, " is a data file among ", files.size(), " inputs: predict one data file alone"));
  }
  if (!samples.converted && options.split != "all") {
    throw UsageError(str("--split is of a dtrain HDF5 file; ", files.front(), " is none"));
  }
  std::error_code none;
  if (samples.converted && std::filesystem::equivalent(files.front(), options.out, none)) {
    throw OutputError(str("--out ", options.out, " is the data file itself"));
  }
  if (samples.converted) {
    samples.store = data::open_file(files.front());
    model.task->check(*samples.store);
  } else {
    samples.store = convert::open_files(file_metadata(model), files);
  }
  if (!samples.converted || options.split == "all") {
    samples.ids.resize(static_cast<size_t>(samples.store->schema().samples));
    std::iota(samples.ids.begin(), samples.ids.end(), 0);
  } else {
    const data::Splits splits = data::splits(*samples.store, model.config.data.val_share, model.config.train.seed);
    samples.ids = split_ids(splits, options.split);
  }
  if (samples.ids.empty()) {
    throw DataError(str(files.front(), " has no samples", options.split == "all" ? "" : " in its ",
                        options.split == "all" ? "" : options.split + " split (try --split)"));
  }
  return samples;
}

// Who predicts what: the ranks take whole batches in turn, so that every sample meets the same others in its batch,
// and gets the same bits, on any number of ranks.
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

// The rows of the `planned` samples in their order; `batch` has them, or says why not.
Chunk rows_of(const data::Store& store, std::span<const int64_t> planned, const data::Batch& batch, tasks::Task& task,
              const RowWriter& writer, train::Precision precision, at::Device device) {
  Chunk chunk;
  std::vector<tasks::Row> rows;
  if (batch.samples() > 0) {
    const auto begin = Clock::now();
    const at::NoGradGuard no_grad;
    const train::Autocast autocast(precision, device);
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

struct Timing {
  double warm_up = 0;             // seconds of the first step: reading, forward, rows
  double rest = 0;                // of all others
  int64_t rest_samples = 0;       // of all ranks
  std::vector<double> latencies;  // of this rank's batches after the first
};

std::string milliseconds(double seconds) { return fixed(seconds * 1e3, 1) + " ms"; }

std::string report(const LoadedModel& model, const Timing& timing, std::vector<double> latencies, int64_t samples,
                   int64_t bad, int64_t batch_size, int ranks) {
  std::string text = str("checkpoint  ", model.checkpoint, "\ninputs      ", human_count(samples),
                         bad > 0 ? str(", ", human_count(bad), " of them bad") : "", "\nwarm-up     first batch ",
                         milliseconds(timing.warm_up), "\n");
  if (latencies.empty()) return text + "speed       no batch after the first to measure\n";
  const Percentiles p = percentiles(latencies);
  return text + str("speed       ", fixed(static_cast<double>(timing.rest_samples) / timing.rest, 1), " samples/s (",
                    ranks, ranks == 1 ? " rank" : " ranks", ", after the first batch)\nlatency     p50 ",
                    milliseconds(p.p50), ", p90 ", milliseconds(p.p90), ", p99 ", milliseconds(p.p99), " of ",
                    human_count(static_cast<int64_t>(latencies.size())), " batches of ", batch_size,
                    " (forward and rows)\n");
}

int predict(Launched& launched, const Options& options) {
  dist::Communicator& host = launched.host;
  const InferenceOptions& how = options.inference;
  dist::agree_on_rank0(host, [&] { check_output(options.out, options.force); });
  // A bad sample is a row that says why, whatever ended or did not end the training.
  const LoadedModel model = load_model(host, options.path, {.module_file = how.module_file, .on_bad_sample = "skip"});
  tasks::Task& task = *model.task;
  const std::vector<std::string> files = agreed_inputs(host, options, model);
  Samples samples;
  train::Precision precision{};
  dist::agree(host, [&] {
    samples = open_samples(options, model, files);
    precision = train::parse_precision(how.amp, launched.device.type(), train::device_info(launched.device).capability);
  });
  train::apply_precision(precision);
  task.model().to(launched.device);
  models::set_channels_last(task.model());

  const std::atomic<bool>& stop = install_stop_signals();  // from here on there is something to clear up
  const RowWriter writer(options.format == "csv" ? RowFormat::kCsv : RowFormat::kJsonLines, task.columns());
  std::unique_ptr<RowOutput> output;
  dist::agree_on_rank0(host, [&] {
    output = std::make_unique<RowOutput>(options.out);
    output->write(writer.header());
  });

  const Turns turns{static_cast<int64_t>(samples.ids.size()), how.batch_size, {host.rank(), host.size()}};
  const std::vector<int64_t> own_ids = turns.own(samples.ids);
  data::SampleSpec spec = task.samples();
  spec.length_window = 0;  // in the order of the inputs
  std::unique_ptr<data::Loader> loader;
  dist::agree(host, [&] {
    if (own_ids.empty()) return;
    loader = std::make_unique<data::Loader>(
        *samples.store, own_ids, spec,
        data::LoaderOptions{.batch_size = how.batch_size,
                            .global_batch = how.batch_size,
                            .steps = data::steps_per_epoch(static_cast<int64_t>(own_ids.size()), how.batch_size),
                            .shuffle = false,
                            .augment = false,
                            .threads = how.threads(launched.cores),
                            .skip_bad = true,
                            .check_targets = false,
                            .device = launched.device},
        data::Shard{});
  });
  Timing timing;
  int64_t bad = 0;
  for (int64_t step = 0; step < turns.steps(); ++step) {
    const auto begin = Clock::now();
    const data::Range mine = turns.positions(step);
    Chunk chunk;
    dist::agree(host, [&] {
      if (stop) throw Error("interrupted: the predictions are not whole", kExitInterrupted);
      if (mine.size() == 0) return;
      const data::Batch batch = loader->next();
      const auto planned =
          std::span(samples.ids).subspan(static_cast<size_t>(mine.begin), static_cast<size_t>(mine.size()));
      chunk = rows_of(*samples.store, planned, batch, task, writer, precision, launched.device);
    });
    const auto texts = dist::all_gather_object(host, chunk.text);
    dist::agree_on_rank0(host, [&] {
      for (const std::string& text : texts) output->write(text);
    });
    bad += chunk.bad;
    if (step == 0) {
      timing.warm_up = seconds_since(begin);
    } else {
      timing.rest += seconds_since(begin);
      timing.rest_samples += turns.samples(step);
      if (chunk.latency > 0) timing.latencies.push_back(chunk.latency);
    }
  }

  dist::agree_on_rank0(host, [&] { output->close(); });
  const std::vector<double> latencies = dist::all_gather_values(host, timing.latencies);
  at::Tensor total = at::tensor({bad}, at::kLong);
  host.all_reduce(total, dist::ReduceOp::kSum).wait();
  bad = total.item<int64_t>();
  dist::agree_on_rank0(host, [&] {
    log::plain(report(model, timing, latencies, turns.count, bad, how.batch_size, host.size()));
    if (bad > 0) throw DataError(str(bad, " of ", turns.count, " inputs could not be predicted: their rows say why"));
  });
  return 0;
}

}  // namespace

int run_predict(const Arguments& arguments) {
  CLI::App app("predictions of a checkpoint, as CSV or JSON lines", "dtrain predict");
  Options options;
  app.add_option("CHECKPOINT", options.path, "a checkpoint folder or a run folder (its newest checkpoint)")->required();
  app.add_option("INPUT", options.inputs, "files, folders, patterns, or one dtrain HDF5 file")->required();
  app.add_option("--out", options.out, "file to write, whole or not at all; default: the standard output");
  app.add_flag("--force", options.force, "replace an existing file");
  app.add_option("--format", options.format, "csv or jsonl")
      ->check(CLI::IsMember({"csv", "jsonl"}))
      ->capture_default_str();
  app.add_option("--split", options.split, "of an HDF5 file: train, val, test or all")
      ->check(CLI::IsMember({"train", "val", "test", "all"}))
      ->capture_default_str();
  options.inference.add_to(app);
  if (!parse(app, arguments)) return 0;
  if (options.inference.amp == "off") options.inference.amp = "fp32";
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of write(), which can be said
  config::Device device;
  device.type = options.inference.device;
  return launch(device, [&](Launched& launched) { return predict(launched, options); });
}

}  // namespace dtrain::cli
