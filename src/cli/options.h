#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dtrain::cli {

// Parses the arguments of a small command. False: --help was asked for and has been printed. UsageError otherwise, with
// CLI11's own text (its exit codes are not ours).
bool parse(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace dtrain::cli
