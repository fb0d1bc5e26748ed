// `dtrain ls`: the runs in a folder, one line each.

#include <CLI/CLI.hpp>
#include <csignal>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "core/clock.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "report/run_summary.h"

namespace dtrain::cli {

int run_ls(const Arguments& arguments) {
  CLI::App app("the runs in a folder, newest first", "dtrain ls");
  std::string folder = "runs", json;
  bool force = false;
  app.add_option("FOLDER", folder, "the folder that holds the run folders")->capture_default_str();
  app.add_option("--json", json,
                 "write all of it as JSON to this file; -: to the standard output, alone")
      ->check(not_empty());
  app.add_flag("--force", force, "replace an existing file");
  if (!parse(app, arguments)) return 0;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe becomes an error of write()
  const std::filesystem::path file = is_standard_output(json) ? "" : json;
  protect(file, {.files = {}, .folders = {}});
  check_output(file, force);
  const std::vector<report::RunSummary> runs = report::list_runs(folder);
  if (json != "-") {
    RowOutput out("-");
    out.write(report::runs_table(runs, unix_seconds()));
    out.close();
  }
  if (json.empty()) return 0;
  RowOutput out(json);
  out.write(report::runs_json(runs));
  out.close();
  return 0;
}

}  // namespace dtrain::cli
