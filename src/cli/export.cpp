// `dtrain export`: a checkpoint's network in a file that other programs open. docs/export.md says
// what is in each.

#include <torch/script.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <sstream>

#include "checkpoint/finite_values.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store.h"
#include "cli/commands.h"
#include "cli/int8_export.h"
#include "cli/open_model.h"
#include "cli/options.h"
#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/agree.h"
#include "export/int8.h"
#include "export/networks.h"
#include "export/onnx_file.h"
#include "export/weights.h"
#include "job/data_set.h"
#include "job/find_checkpoint.h"
#include "job/signals.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "tasks/module/script_network.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAbout =
    R"(Writes a checkpoint's network to a file that other programs open, without code
of dtrain.

Formats:
  safetensors  the weights under PyTorch's names, and as metadata what inference
               needs; of every network
  onnx         float32 for any ONNX runtime (opset 13, any batch size); of every
               network but `module`
  onnx-int8    INT8 in QDQ form, a quarter of the size; of the convolutional
               networks. It is calibrated on samples of a data file and measured
               on its test split, and the change in accuracy is printed
  torchscript  a network that came as TorchScript (`module`), with the trained
               weights

Images go into the ONNX forms as float32 [batch, 3, S, S]: RGB in [0, 1], minus
mean, divided by std. The file's own metadata hold S, mean, std and what the
outputs mean. docs/export.md has the code for each format.

Examples:
  dtrain export runs/heads --format onnx --out heads.onnx
  dtrain export runs/photos --format onnx-int8 --dataset images)";

const std::map<std::string, std::string> kSuffix = {{"safetensors", ".safetensors"},
                                                    {"onnx", ".onnx"},
                                                    {"onnx-int8", "-int8.onnx"},
                                                    {"torchscript", ".pt"}};

struct Options {
  job::CheckpointName checkpoint;
  std::string format, out, data, split;
  int64_t samples = 256;
  bool force = false;
  InferenceOptions inference;
};

std::string torchscript(const job::TrainedModel& model) {
  const auto* network = dynamic_cast<const tasks::ScriptNetwork*>(&model.task->model());
  DTRAIN_CHECK(network != nullptr, model.checkpoint);
  std::ostringstream out;
  network->script().save(out);
  return std::move(out).str();
}

void check(const Options& options, const std::string& network,
           const checkpoint::Metadata& metadata) {
  if (options.format == "torchscript" && !catalog::is_from_file(network)) {
    throw UsageError(str(network,
                         " is dtrain's own network and has no TorchScript code: --format onnx runs "
                         "everywhere, and --format safetensors loads into the PyTorch network of "
                         "the same name (docs/export.md shows how)"));
  }
  job::check_module_option(options.inference.module_file, metadata);
  if (const std::string reason = exporting::why_not_int8(network);
      options.format == "onnx-int8" && !reason.empty()) {
    throw UsageError(str("--format onnx-int8: ", reason));
  }
}

// Of the network of a TorchScript file, which is not run here, a mask may be infinite.
void check_finite(const std::string& safetensors, const std::string& network,
                  const std::string& file) {
  for (const auto& [name, tensor] :
       checkpoint::from_safetensors(std::as_bytes(std::span(safetensors)), file).tensors) {
    const bool judged = !catalog::is_from_file(network) || at::isnan(tensor).any().item<bool>();
    if (judged) checkpoint::check_finite(tensor, name, file);
  }
}

// The checkpoint to export, on rank 0; elsewhere nothing.
struct Source {
  job::FoundCheckpoint found;
  std::string network;
  Inputs inputs;  // all that the command reads
};

// With all checks that need no weights. Sets `out`: its default, and where a link leads to.
Source find_source(dist::Communicator& host, Options& options) {
  Source source;
  dist::agree_on_rank0(host, [&] {
    source.found = job::find_checkpoint(options.checkpoint);
    const fs::path& folder = source.found.folder;
    checkpoint::CheckpointStore::verify(folder);
    const checkpoint::Metadata metadata =
        checkpoint::read_header(folder / "model.safetensors").metadata;
    source.network = exporting::required(metadata, "network");
    check(options, source.network, metadata);
    if (options.out.empty()) options.out = source.network + kSuffix.at(options.format);
    options.out = link_target(options.out);
    const auto module_file = metadata.find("module_file");
    source.inputs = {.files = {options.data, options.inference.module_file,
                               module_file == metadata.end() ? "" : module_file->second},
                     .folders = {folder}};
  });
  return source;
}

// The bytes of the file. `model`: for the formats that need its code or its data.
std::string bytes_of(job::ProcessContext& process, const Options& options, const Source& source,
                     const std::optional<job::TrainedModel>& model) {
  const fs::path weights_file = source.found.folder / "model.safetensors";
  if (options.format == "safetensors") {
    std::string bytes = read_text(weights_file);
    check_finite(bytes, source.network, weights_file);
    return bytes;
  }
  if (options.format == "torchscript") return torchscript(*model);
  exporting::Metadata metadata;
  const exporting::Weights weights = exporting::read_weights(weights_file, &metadata);
  exporting::Graph graph = exporting::build_graph(weights, metadata);
  if (options.format == "onnx-int8") {
    const InferenceOptions& how = options.inference;
    graph = int8_graph(process.prober, graph, *model,
                       {.data = options.data,
                        .split = options.split,
                        .samples = options.samples,
                        .batch_size = how.batch_size,
                        .threads = job::reader_threads(how.workers, process.cores),
                        .out = options.out});
  }
  return exporting::to_onnx(graph);
}

// Rank 0 does the work; the others only take part in loading the checkpoint.
int export_to(job::ProcessContext& process, const Options& given) {
  Options options = given;
  const Source source = find_source(process.host, options);
  const std::string& chosen = source.found.chosen;
  const job::CheckpointName name{.path = source.found.folder.string(), .choice = ""};
  const ModelOpening opening{.checkpoint = name,
                             .how = options.inference,
                             .out = options.out,
                             .is_file = true,
                             .replace = options.force,
                             .inputs = source.inputs};
  std::optional<job::TrainedModel> model;
  if (options.format == "onnx-int8" || options.format == "torchscript") {
    model = open_model(process, opening);
  } else {
    guard_output(process.host, opening);
  }
  dist::agree_on_rank0(process.host, [&] {
    const std::string bytes = bytes_of(process, options, source, model);
    const fs::path out = options.out;
    if (out.has_parent_path()) real_file_system().create_folders(out.parent_path());
    job::install_stop_signals();  // so that no half-written file is left behind
    write_atomically(real_file_system(), out, bytes);
    log::plain(str("wrote ", options.out, ": ", source.network, " as ", options.format, ", ",
                   human_bytes(static_cast<double>(bytes.size())), ", from ", name.path,
                   chosen.empty() ? "" : str(" (", chosen, ")")));
  });
  return 0;
}

}  // namespace

int run_export(const Arguments& arguments) {
  CLI::App app(kAbout, "dtrain export");
  Options options;
  options.inference.device = config::DeviceType::kCpu;
  options.inference.batch_size = 32;
  add_checkpoint_options(app, &options.checkpoint);
  add_dataset_option(app, &options.data,
                     "onnx-int8: a dtrain HDF5 file, or NAME of `dtrain convert NAME`: "
                     "data/NAME.h5; default: the one it was trained on");
  app.add_option("--split", options.split,
                 "onnx-int8: calibrate on train, val or test (default: val, or train without one); "
                 "measured on test if there is one")
      ->check(CLI::IsMember({"train", "val", "test"}));
  add_number(app, "--samples", options.samples, 1, 1 << 30,
             "onnx-int8: calibrate on this many samples of the split");
  InferenceOptions& how = options.inference;
  how.add_batch_size(app, "onnx-int8: samples per forward pass");
  how.add_workers(app);
  how.add_threads(app);
  how.add_module(app, "torchscript: the TorchScript file, if it is not where it was");
  app.add_option("--format", options.format, "safetensors, onnx, onnx-int8 or torchscript")
      ->check(CLI::IsMember({"safetensors", "onnx", "onnx-int8", "torchscript"}))
      ->required();
  app.add_option("--out", options.out,
                 "the file to write (default: NETWORK.safetensors, NETWORK.onnx, ...)");
  app.add_flag("--force", options.force, "replace an existing file");
  if (!parse(app, arguments)) return 0;
  for (const char* flag :
       {"--dataset", "--split", "--samples", "--batch-size", "--workers", "--threads"}) {
    if (options.format != "onnx-int8" && app.count(flag) > 0) {
      throw UsageError(str(flag, " is of --format onnx-int8, not ", options.format));
    }
  }
  config::Device device;
  device.type = how.device;
  device.threads = how.threads;
  return job::launch(device,
                     [&](job::ProcessContext& process) { return export_to(process, options); });
}

}  // namespace dtrain::cli
