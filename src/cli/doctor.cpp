// `dtrain doctor`: whether this machine and this launch suit a run, before it is started.

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "dist/agree.h"
#include "doctor/checks.h"
#include "doctor/collect.h"
#include "doctor/report.h"
#include "job/process_context.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "text/wrap.h"

namespace dtrain::cli {
namespace {

struct Options {
  std::string json;
  bool force = false;
};

// A GPU on which a copy hangs cannot be given back: nothing may wait for it.
bool a_copy_hangs(const std::vector<doctor::RankFacts>& ranks) {
  for (const doctor::RankFacts& rank : ranks) {
    if (!rank.gpu) continue;
    for (const doctor::PeerFacts& peer : rank.gpu->peers) {
      if (peer.result == "hangs") return true;
    }
  }
  return false;
}

int diagnose(job::ProcessContext& process, const config::Loaded& loaded,
             const doctor::EarlyFacts& early, const Options& options) {
  const config::Config& config = loaded.config;
  std::unique_ptr<RowOutput> json;
  dist::agree_on_rank0(process.host, [&] {
    if (options.json.empty()) return;
    const std::filesystem::path path = is_standard_output(options.json) ? "" : options.json;
    protect(path, inputs_of(loaded));
    if (!path.empty()) check_output(path, options.force);
    json = std::make_unique<RowOutput>(options.json, options.force);
  });
  const std::unique_ptr<doctor::GpuProbe> gpus = doctor::make_gpu_probe();
  const doctor::Launch launch{config, doctor::collect(process, config, early, *gpus)};
  const doctor::Diagnosis diagnosis = doctor::examine(launch);
  dist::agree_on_rank0(process.host, [&] {
    if (options.json != "-") {
      RowOutput out("-");
      out.write(doctor::to_text(launch, diagnosis));
      out.close();
    }
    if (!json) return;
    json->write(doctor::to_json(launch, diagnosis));
    json->close();
  });
  const int exit_code = diagnosis.blocks() ? kExitFound : 0;
  if (a_copy_hangs(launch.ranks)) process.mpi.abort(exit_code);
  return exit_code;
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  CLI::App app(
      "checks this machine and this launch for the run that the same arguments would start, and "
      "names each fault with "
      "its fix. Start it as you would start the run, under the same mpirun. Exit code 1: something "
      "blocks the run",
      "dtrain doctor");
  Options options;
  app.add_option(
         "--json", options.json,
         "write the findings and all facts as JSON to this file; -: to the standard output, alone")
      ->check(not_empty());
  app.add_flag("--force", options.force, "replace an existing file");
  const std::optional<config::Loaded> loaded =
      parse_with_config(app, arguments, /*check_dataset=*/false);
  if (!loaded) return 0;
  std::signal(SIGPIPE, SIG_IGN);
  const doctor::EarlyFacts early = doctor::early_facts();
  // A GPU that cannot be used is to be found, not to end the command.
  config::Device on_cpu = loaded->config.device;
  on_cpu.type = config::DeviceType::kCpu;
  return job::launch(on_cpu, [&](job::ProcessContext& process) {
    return diagnose(process, *loaded, early, options);
  });
}

}  // namespace dtrain::cli
