#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::cli {

bool parse(CLI::App& app, const std::vector<std::string>& arguments) {
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
    app.parse(reversed);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& e) {
    throw UsageError(str(app.get_name(), ": ", e.what(), " (", app.get_name(), " --help)"));
  }
}

}  // namespace dtrain::cli
