#pragma once

// The commands with all of their flags, as data: for shell completion and the manual page.

#include <vector>

#include "cli/commands.h"
#include "cli/manual.h"

namespace dtrain::cli {

std::vector<ManualFlag> train_switches();  // flags of train besides the configuration keys

// `train` has the keys of the configuration; the flags of the others are those that they pass to
// parse() (options.h).
std::vector<ManualCommand> command_list();

// `dtrain --manual bash|zsh|man`: prints the completion or the page. UsageError.
int run_manual(const Arguments& arguments);

}  // namespace dtrain::cli
