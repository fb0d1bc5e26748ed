#pragma once

// The commands, each one function in one file. `arguments` are those after the command's name. They
// return the exit code of the process, and throw Error, which main() prints.

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
int run_bench(const Arguments&);
int run_bench_data(const Arguments&);
int run_bench_comm(const Arguments&);
int run_bench_step(const Arguments&);
int run_tune(const Arguments&);
int run_doctor(const Arguments&);
int run_plan(const Arguments&);
int run_report(const Arguments&);
int run_ls(const Arguments&);
int run_trace(const Arguments&);
int run_launch(const Arguments&);

inline constexpr int kExitFound = 1;  // the command works, and found what blocks, or a gate failed

struct Command {
  const char* name;
  const char* usage;
  const char* text;
  int (*run)(const Arguments&);
  bool alone = false;  // runs as one process; several would do the same work and disturb each other
};
const std::vector<Command>& commands();

// `dtrain --help` and `dtrain train --help`; with `all`, every key of the configuration in place of
// the short names.
std::string general_help(bool all);
std::string train_help(bool all);
bool asks_for_all(const Arguments&, size_t help);  // whether `all` follows the --help at this place

}  // namespace dtrain::cli
