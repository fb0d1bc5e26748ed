#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "checkpoint/inspect.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_folder.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/inspect.h"

namespace dtrain::cli {

int run_inspect(const Arguments& arguments) {
  CLI::App app("what is in a data file or a checkpoint", "dtrain inspect");
  std::string path;
  bool verify = false;
  app.add_option("PATH", path, "a dtrain HDF5 file, a checkpoint folder or a run folder")->required();
  app.add_flag("--verify", verify, "read all of it and compare the checksums");
  if (!parse(app, arguments)) return 0;
  std::error_code error;  // a link that leads to itself is not there either
  if (!std::filesystem::exists(path, error)) throw DataError(str(path, " does not exist"));
  const bool folder = std::filesystem::is_directory(path);
  std::fputs((folder ? checkpoint::inspect_checkpoint(find_checkpoint(path), verify) : data::inspect_data(path, verify))
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace dtrain::cli
