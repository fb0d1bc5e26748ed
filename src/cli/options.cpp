#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/strings.h"
#include "core/wrap.h"

namespace dtrain::cli {
namespace {

// CLI11 gives a description its column, not its width.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(CLI::Formatter::make_option_desc(option), kHelpWidth - get_column_width());
  }
};

}  // namespace

bool parse(CLI::App& app, const std::vector<std::string>& arguments) {
  app.formatter(std::make_shared<Formatter>());
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
