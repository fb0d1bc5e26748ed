// `dtrain doctor`: whether this machine and this launch suit a run, before it is started.

#include <CLI/CLI.hpp>
#include <csignal>
#include <optional>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/table_output.h"
#include "doctor/checks.h"
#include "doctor/collect.h"
#include "doctor/report.h"
#include "job/process_context.h"
#include "os/facts.h"

namespace dtrain::cli {
namespace {

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
             std::optional<int64_t> free_shared_memory, TableOutput& output) {
  output.open(process.host, inputs_of(loaded));
  const doctor::Launch launch{loaded.config,
                              doctor::collect(process, loaded.config, free_shared_memory)};
  const doctor::Diagnosis diagnosis = doctor::examine(launch);
  output.write(
      process.host, [&] { return doctor::to_text(launch, diagnosis); },
      [&] { return doctor::to_json(launch, diagnosis); });
  const int exit_code = diagnosis.blocks() ? kExitFound : 0;
  if (a_copy_hangs(launch.ranks)) process.mpi.abort(exit_code);
  return exit_code;
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  CLI::App app(
      "checks this machine and this launch for the run that the same arguments would start, and "
      "names each fault with its fix. Start it as you would start the run, under the same mpirun. "
      "Exit code 1: something blocks the run",
      "dtrain doctor");
  TableOutput output;
  output.add_to(
      app,
      "write the findings and all facts as JSON to this file; -: to the standard output, alone");
  const std::optional<config::Loaded> loaded =
      parse_with_config(app, arguments, /*check_dataset=*/false);
  if (!loaded) return 0;
  std::signal(SIGPIPE, SIG_IGN);
  const std::optional<int64_t> free_shared_memory = os::read_facts().free_shared_memory;
  // A GPU that cannot be used is to be found, not to end the command.
  config::Device on_cpu = loaded->config.device;
  on_cpu.type = config::DeviceType::kCpu;
  return job::launch(on_cpu, [&](job::ProcessContext& process) {
    return diagnose(process, *loaded, free_shared_memory, output);
  });
}

}  // namespace dtrain::cli
