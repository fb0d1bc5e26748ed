#pragma once

// The subcommands: one function, one file each. `arguments` are those behind the command's name. They return the
// process's exit code and throw Error for what main() prints.

#include <string>
#include <vector>

namespace dtrain::cli {

using Arguments = std::vector<std::string>;

int run_train(const Arguments&);
int run_eval(const Arguments&);
int run_predict(const Arguments&);
int run_export(const Arguments&);
int run_convert(const Arguments&);
int run_synth(const Arguments&);
int run_inspect(const Arguments&);

struct Command {
  const char* name;
  const char* usage;
  const char* text;
  int (*run)(const Arguments&);
  bool alone = false;  // one process by itself: several would do the same work in each other's way
};
const std::vector<Command>& commands();

std::string general_help();  // `dtrain --help`
std::string train_help();    // `dtrain train --help`

}  // namespace dtrain::cli
