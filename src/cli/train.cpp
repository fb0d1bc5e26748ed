// `dtrain [train]`: a training run, from the configuration to the verdict.

#include <cstdio>
#include <utility>

#include "cli/commands.h"
#include "config/load.h"
#include "config/print.h"
#include "dist/launcher.h"
#include "job/process_context.h"
#include "job/run_display.h"
#include "job/training_job.h"

namespace dtrain::cli {
namespace {

int train(job::ProcessContext& process, const config::Loaded& loaded, bool dry_run) {
  job::PreparedRun run = job::plan_training(process, loaded, dry_run).open_data().make_task();
  if (run.is_beyond_its_end()) return run.leave_unchanged();
  return std::move(run)
      .place_on_device()
      .check_training()
      .connect()
      .claim_name()
      .announce()
      .train()
      .conclude();
}

}  // namespace

int run_train(const Arguments& arguments) {
  Arguments rest;
  bool print_config = false, dry_run = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      std::fputs(train_help(asks_for_all(arguments, i)).c_str(), stdout);
      return 0;
    }
    if (argument == "--print-config") {
      print_config = true;
    } else if (argument == "--dry-run") {
      dry_run = true;
    } else {
      rest.push_back(argument);
    }
  }
  const config::Loaded loaded = config::load(
      rest, ".",
      {.other_flags = {"--print-config", "--dry-run", "--help"}, .check_dataset = !print_config});
  if (print_config) {
    if (dist::launcher_rank_hint() == 0) std::fputs(config::to_yaml(loaded.config).c_str(), stdout);
    return 0;
  }
  return job::launch(loaded.config.device,
                     [&](job::ProcessContext& process) { return train(process, loaded, dry_run); });
}

}  // namespace dtrain::cli
