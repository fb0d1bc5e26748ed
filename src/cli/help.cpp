#include <torch/version.h>

#include "cli/commands.h"
#include "config/load.h"
#include "core/strings.h"
#include "data/layout.h"
#include "dist/nccl_communicator.h"
#include "dist/world.h"
#include "train/device.h"

namespace dtrain::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"train", "[CONFIG.yaml] [--section.key VALUE]...", "train (the default command)", run_train},
      {"eval", "RUN|CHECKPOINT [--data FILE] [--split NAME]", "metrics of a checkpoint on a split", run_eval},
      {"predict", "RUN|CHECKPOINT INPUT... [--out FILE] [--format csv|jsonl]", "predictions as rows of text",
       run_predict},
      {"export", "RUN|CHECKPOINT --format safetensors|onnx|onnx-int8|torchscript [--out FILE]",
       "a file that other programs open", run_export},
      {"convert", "300wlp|aflw2000|biwi DIR [--out FILE]", "raw data to one dtrain HDF5 file", run_convert},
      {"synth", "headpose [--layout hdf5|300wlp|biwi]", "generated data, as files or as HDF5", run_synth},
      {"inspect", "FILE|CHECKPOINT|MODEL.pt [--verify]", "what is in a data file, a checkpoint or a TorchScript file",
       run_inspect},
  };
  return all;
}

std::string general_help() {
  std::string text =
      "dtrain: distributed training on GPUs and CPUs\n\n"
      "usage: [mpirun -np N] dtrain [COMMAND] [CONFIG.yaml] [--section.key VALUE | --alias VALUE]...\n\n"
      "Without a command it trains; without a config it reads ./dtrain.yaml, and without that it trains the quick "
      "start on\n"
      "a head-pose set that it generates. `dtrain COMMAND --help` tells more of one command.\n\ncommands:\n";
  for (const Command& command : commands()) {
    text += str("  ", command.name, std::string(9 - std::string(command.name).size(), ' '), command.usage,
                "\n           ", command.text, "\n");
  }
  text +=
      "\nflags of train:\n"
      "  --print-config   print the resolved configuration (reusable as input) and stop\n"
      "  --dry-run        go up to step 1 and stop; nothing is written\n"
      "  --help, --version\n\n";
  return text + config::help_text();
}

std::map<std::string, std::string> build_labels() {
  return {{"version", DTRAIN_VERSION},     {"git_commit", DTRAIN_GIT_COMMIT},
          {"torch", TORCH_VERSION},        {"cuda", train::cuda_runtime_version()},
          {"nccl", dist::nccl_versions()}, {"mpi", dist::mpi_library_version()},
          {"hdf5", data::hdf5_version()}};
}

std::string version_text() {
  const auto labels = build_labels();
  return str("dtrain ", labels.at("version"), " (", labels.at("git_commit"), ") | LibTorch ", labels.at("torch"),
             " | CUDA ", labels.at("cuda"), " | NCCL ", labels.at("nccl"), " | ", labels.at("mpi"), " | HDF5 ",
             labels.at("hdf5"));
}

}  // namespace dtrain::cli
