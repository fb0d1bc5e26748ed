// `dtrain bench data|comm|step`: the three parts of a run, each measured alone.

#include <cstdio>
#include <set>

#include "cli/commands.h"
#include "cli/options.h"
#include "core/error.h"
#include "text/strings.h"
#include "text/wrap.h"

namespace dtrain::cli {
namespace {

const std::vector<Command>& parts() {
  static const std::vector<Command> all = {
      {"data", "[CONFIG.yaml] [--section.key VALUE]...",
       "the loader: samples and bytes per second, cold and warm, by reader threads",
       run_bench_data},
      {"comm", "[CONFIG.yaml] [--section.key VALUE]...",
       "the communicators: time and bandwidth of each operation by size, as nccl-tests shows them",
       run_bench_comm},
      {"step", "[CONFIG.yaml] [--section.key VALUE]...",
       "the training step: phases, samples per second and memory by batch size", run_bench_step},
  };
  return all;
}

std::string help() {
  std::string text =
      "measure one part of a run alone, with the run's own parts and configuration\n"
      "Usage: dtrain bench data|comm|step [CONFIG.yaml] [--FLAG VALUE]...\n\n";
  for (const Command& part : parts()) text += help_entry(part.name, part.text, 8);
  return text +
         "\nUnder mpirun all ranks are measured. `dtrain bench PART --help` lists the flags.\n";
}

// Of all three, each once: for completion and the manual page.
ListedFlags all_flags() {
  ListedFlags all;
  std::set<std::string> known;
  for (const Command& part : parts()) {
    for (const ManualFlag& flag : flags_of(part)) {
      if (known.insert(flag.names[0]).second) all.flags.push_back(flag);
    }
  }
  return all;
}

}  // namespace

int run_bench(const Arguments& arguments) {
  if (arguments == Arguments{kListFlags}) throw all_flags();
  const std::string name = arguments.empty() ? "" : arguments[0];
  if (name == "--help" || name == "-h") {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& part : parts()) {
    if (part.name == name) return part.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(part.name);
  }
  const std::string near = nearest(name, names);
  throw UsageError(str("dtrain bench measures one of ", join(names, ", "),
                       name.empty() ? "" : str(", not '", name, "'"),
                       near.empty() ? "" : str("; did you mean '", near, "'?"),
                       " (dtrain bench --help)"));
}

}  // namespace dtrain::cli
