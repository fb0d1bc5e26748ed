#pragma once

// CLI11 for the subcommands with options of their own: its errors become a UsageError that names the command's help.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::cli {

// False: --help was asked for and has been printed.
inline bool parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(str(app.get_name(), ": ", error.what(), ". See ", app.get_name(), " --help"));
  }
}

}  // namespace dtrain::cli
