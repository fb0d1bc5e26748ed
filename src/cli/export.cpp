// `dtrain export`: a checkpoint's network in a file that other programs open. docs/export.md says what is in each.

#include <torch/script.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/store.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/loaded_model.h"
#include "cli/options.h"
#include "cli/run_folder.h"
#include "core/check.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/loader.h"
#include "data/store.h"
#include "dist/bytes.h"
#include "export/int8.h"
#include "export/networks.h"
#include "export/onnx_file.h"
#include "export/weights.h"
#include "tasks/module/script_network.h"
#include "tasks/task.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAbout =
    R"(Write a checkpoint's network to a file that other programs open, without code of dtrain.

Formats:
  safetensors   the weights under PyTorch's names, with what inference needs as metadata
  onnx          the network in float32 for any ONNX runtime (opset 13, dynamic batch)
  onnx-int8     the same in INT8 (QDQ), calibrated on samples of a data file: a quarter of the size
  torchscript   a network that came as TorchScript, with the trained weights

The input of the ONNX forms of image networks is float32 [batch, 3, S, S], RGB in [0, 1] minus mean, divided by std; the
file's own metadata hold S, mean, std and what the outputs mean.)";

const std::map<std::string, std::string> kSuffix = {
    {"safetensors", ".safetensors"}, {"onnx", ".onnx"}, {"onnx-int8", "-int8.onnx"}, {"torchscript", ".pt"}};

struct Options {
  std::string path, format, out, data, module_file, split = "val";
  int64_t samples = 256, batch_size = 32;
  bool force = false;
};

// The data that an INT8 export is calibrated on and measured with.
class Samples {
 public:
  Samples(const LoadedModel& model, const Options& options, int threads)
      : batch_size_(options.batch_size), threads_(threads), spec_(model.task->samples()) {
    const config::Config& config = model.config;
    store_ = data::Store::open(options.data.empty() ? config.data.file : options.data);
    model.task->check(*store_);
    const data::Splits splits = data::splits(*store_, config.data.val_share, config.train.seed);
    ids_ = options.split == "train" ? splits.train : options.split == "val" ? splits.val : splits.test;
    if (ids_.empty()) {
      throw DataError(str(store_->path().string(), " has no samples in its ", options.split, " split (try --split)"));
    }
  }

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }

  // `count` samples spread evenly over the split, which may be sorted by class; or all.
  exporting::Batches spread(int64_t count) const {
    std::vector<int64_t> chosen;
    count = std::min(count, size());
    for (int64_t i = 0; i < count; ++i) chosen.push_back(ids_[static_cast<size_t>(i * size() / count)]);
    return [this, chosen](const exporting::Visit& visit) {
      data::Loader loader(*store_, chosen, spec_,
                          {.batch_size = batch_size_,
                           .global_batch = batch_size_,
                           .steps = data::steps_per_epoch(static_cast<int64_t>(chosen.size()), batch_size_),
                           .shuffle = false,
                           .augment = false,
                           .threads = threads_},
                          {0, 1});
      while (!loader.done()) {
        const data::Batch batch = loader.next();
        if (batch.samples() > 0) visit(batch.inputs.contiguous(), batch.targets);
      }
    };
  }

 private:
  int64_t batch_size_;
  int threads_;
  data::SampleSpec spec_;
  std::unique_ptr<data::Store> store_;
  std::vector<int64_t> ids_;
};

void tell(const exporting::Int8Graph& int8, const exporting::Score& before, const exporting::Score& after,
          const Options& options) {
  const std::string unit = before.name == "top-1" ? " %" : "";
  log::plain(str("calibrated on ", human_count(options.samples), " samples of the ", options.split,
                 " split (ranges: ", int8.clipping, "); outputs differ by ",
                 fixed(100 * int8.difference_rms / std::max(int8.output_rms, 1e-30), 2),
                 " % of their root mean square"));
  log::plain(str(before.name, " on ", human_count(before.samples), " samples of the ", options.split,
                 " split: float32 ", fixed(before.value, 4), unit, ", int8 ", fixed(after.value, 4), unit, " (change ",
                 after.value < before.value ? "" : "+", fixed(after.value - before.value, 4), unit, ")"));
}

exporting::Graph int8_graph(const exporting::Graph& graph, const LoadedModel& model, Options options, int threads) {
  const Samples samples(model, options, threads);
  options.samples = std::min(options.samples, samples.size());
  const auto scale = graph.metadata.find("angle_scale");
  const double output_scale = scale == graph.metadata.end() ? 1 : std::stod(scale->second);
  exporting::Int8Graph int8 = exporting::to_int8(graph, samples.spread(options.samples));
  const exporting::Batches all = samples.spread(samples.size());
  tell(int8, exporting::score(graph, all, output_scale), exporting::score(int8.graph, all, output_scale), options);
  return std::move(int8.graph);
}

std::string torchscript(const LoadedModel& model) {
  const auto* network = dynamic_cast<const tasks::ScriptNetwork*>(&model.task->model());
  DTRAIN_CHECK(network != nullptr, model.checkpoint);
  std::ostringstream out;
  network->script().save(out);
  return std::move(out).str();
}

// What can be known before any weight is read; gives `out` its default.
void check(Options* options, const fs::path& checkpoint) {
  const exporting::Metadata metadata = checkpoint::read_header(checkpoint / "model.safetensors").metadata;
  const std::string& network = exporting::required(metadata, "network");
  if (options->format == "torchscript" && network != "torchscript") {
    throw UsageError(
        str(network,
            " is dtrain's own network and has no TorchScript code: --format onnx runs everywhere, and --format "
            "safetensors loads into the PyTorch network of the same name (docs/export.md shows how)"));
  }
  if (const std::string reason = exporting::why_not_int8(network); options->format == "onnx-int8" && !reason.empty()) {
    throw UsageError(str("--format onnx-int8: ", reason));
  }
  if (options->out.empty()) options->out = network + kSuffix.at(options->format);
  if (fs::is_directory(options->out)) throw OutputError(str(options->out, " is a folder: --out names a file"));
  if (fs::exists(options->out) && !options->force) {
    throw OutputError(str(options->out, " exists: --force replaces it, --out FILE names another"));
  }
}

// Rank 0 does the work; the others take part in loading alone.
int export_to(Launched& launched, const Options& given) {
  Options options = given;
  fs::path checkpoint;
  dist::agree_on_rank0(launched.host, [&] {
    checkpoint = find_checkpoint(options.path);
    checkpoint::Store::verify(checkpoint);
    check(&options, checkpoint);
  });
  std::optional<LoadedModel> model;
  if (options.format == "onnx-int8" || options.format == "torchscript") {
    model = load_model(launched.host, checkpoint.string(), options.module_file);
  }
  dist::agree_on_rank0(launched.host, [&] {
    std::string bytes;
    if (options.format == "safetensors") {
      bytes = read_text(checkpoint / "model.safetensors");
    } else if (options.format == "torchscript") {
      bytes = torchscript(*model);
    } else {
      exporting::Metadata metadata;
      const exporting::Weights weights = exporting::read_weights(checkpoint / "model.safetensors", &metadata);
      exporting::Graph graph = exporting::build_graph(weights, metadata);
      if (options.format == "onnx-int8") {
        graph = int8_graph(graph, *model, options, std::clamp(launched.cores / 2, 1, 8));
      }
      bytes = exporting::to_onnx(graph);
    }
    const fs::path out = options.out;
    if (out.has_parent_path()) real_file_system().create_folders(out.parent_path());
    write_atomically(real_file_system(), out, bytes);
    log::plain(str("wrote ", options.out, " (", options.format, "): ", human_bytes(static_cast<double>(bytes.size())),
                   ", from ", checkpoint.string()));
  });
  return 0;
}

}  // namespace

int run_export(const Arguments& arguments) {
  CLI::App app(kAbout, "dtrain export");
  Options options;
  app.add_option("PATH", options.path, "a checkpoint folder or a run folder (its newest checkpoint)")->required();
  app.add_option("--format", options.format, "safetensors, onnx, onnx-int8 or torchscript")
      ->check(CLI::IsMember({"safetensors", "onnx", "onnx-int8", "torchscript"}))
      ->required();
  app.add_option("--out", options.out, "the file to write (default: NETWORK.safetensors, NETWORK.onnx, ...)");
  app.add_flag("--force", options.force, "replace an existing file");
  app.add_option("--data", options.data, "onnx-int8: a dtrain HDF5 file; default: the one it was trained on");
  app.add_option("--split", options.split, "onnx-int8: calibrate and measure on train, val or test")
      ->check(CLI::IsMember({"train", "val", "test"}))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "onnx-int8: calibrate on so many samples of the split")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "onnx-int8: samples per forward pass")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--module", options.module_file, "torchscript: the TorchScript file, if it is not where it was");
  if (!parse(app, arguments)) return 0;
  config::Device device;
  device.type = "cpu";
  return launch(device, [&](Launched& launched) { return export_to(launched, options); });
}

}  // namespace dtrain::cli
