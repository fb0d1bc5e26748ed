#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "checkpoint/pickle_file.h"
#include "checkpoint/store.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/progress_line.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/probe_process.h"
#include "job/find_checkpoint.h"
#include "job/inspect_run.h"
#include "tasks/module/contract.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

struct ModuleTrial {
  std::string inputs;
  int64_t image_size = 224, features = 0;
};

int inspect_module(const std::string& path, const ModuleTrial& trial) {
  const tasks::Contract contract = tasks::examine(
      path, tasks::likely_trials(path, trial.inputs, trial.image_size, trial.features),
      tasks::ModuleLoss(config::LossName::kMse));
  const std::string text =
      str("TorchScript ", path, ", SHA-256 ", sha256_hex_of_file(path), "\n", to_text(contract));
  print(printable(text, "\n"));
  if (contract.defects.empty()) return 0;
  std::fflush(stdout);
  throw DataError(str(path, ": ", contract.defects.size(),
                      contract.defects.size() == 1 ? " defect" : " defects",
                      " that would stop its training"));
}

// A checkpoint; or a run: the list of its checkpoints, and then its newest one that verifies.
int inspect_folder(const std::string& path, bool verify, const ReportProgress& report) {
  if (job::is_checkpoint(path)) {
    print(checkpoint::inspect_checkpoint(path, verify, report));
    return 0;
  }
  const job::RunReport run = job::inspect_run(path, verify, report);
  print(run.text + checkpoint::inspect_checkpoint(run.newest, verify, report));
  if (!verify || run.damaged == 0) return 0;
  std::fflush(stdout);
  throw CheckpointError(str(path, ": ", run.damaged,
                            run.damaged == 1 ? " checkpoint is" : " checkpoints are",
                            " damaged; the lines above say how"));
}

}  // namespace

int run_inspect(const Arguments& arguments) {
  CLI::App app("what is in a data file, a run, a checkpoint or a TorchScript file",
               "dtrain inspect");
  std::string path;
  bool verify = false;
  ModuleTrial trial;
  app.add_option("PATH", path,
                 "a dtrain HDF5 file, a checkpoint or run folder, a safetensors file, or a "
                 "TorchScript file (which is run)")
      ->required();
  app.add_option("--inputs", trial.inputs,
                 "TorchScript: what forward() is given; default: by its first weight")
      ->check(CLI::IsMember({"image", "rows", "rows+lengths"}));
  add_number(app, "--image-size", trial.image_size, 1, 4096,
             "TorchScript: side of the pictures it is tried on");
  app.add_option("--features", trial.features,
                 "TorchScript: numbers in a row; 0: by its first weight")
      ->check(whole_number(0, 1 << 20));
  app.add_flag("--verify", verify, "read all of it and compare the checksums");
  if (!parse(app, arguments)) return 0;
  std::error_code error;  // a link that points to itself does not exist either
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const bool loop = error == std::errc::too_many_symbolic_link_levels;
  if (!std::filesystem::status_known(status) && !loop)
    throw DataError(str("cannot use ", path, ": ", error.message()));
  if (!std::filesystem::exists(status)) throw DataError(str(path, " does not exist"));
  ProgressLine line(ProgressLine::Last::kOfLongWork);
  const ReportProgress report = [&](const Progress& progress) { line.show(progress); };
  if (std::filesystem::is_directory(status)) return inspect_folder(path, verify, report);
  if (!std::filesystem::is_regular_file(status)) {
    throw DataError(str(path, " is a pipe, a socket or a device; it must be a file or a folder"));
  }
  if (checkpoint::pickle_of(path) != checkpoint::Pickle::kNone) return inspect_module(path, trial);
  if (path.ends_with(".safetensors")) {
    print(checkpoint::inspect_checkpoint(path, verify));
    return 0;
  }
  data::ProbeProcess prober;
  print(data::inspect_data(prober.probe(path), verify, report));
  return 0;
}

}  // namespace dtrain::cli
