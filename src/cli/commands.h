#pragma once

// The commands, each one function in one file. `arguments` are those after the command's name. They return the exit
// code of the process, and throw Error, which main() prints.

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
  bool alone = false;  // runs as one process; several would do the same work and disturb each other
};
const std::vector<Command>& commands();

// `dtrain --help` and `dtrain train --help`; with `all`, every key of the configuration in place of the short names.
std::string general_help(bool all);
std::string train_help(bool all);
bool asks_for_all(const Arguments&, size_t help);  // whether `all` follows the --help at this place

}  // namespace dtrain::cli
