#include "cli/commands.h"
#include "cli/manual.h"
#include "config/print.h"
#include "text/strings.h"
#include "text/wrap.h"

namespace dtrain::cli {

namespace {

std::string train_flags() {
  std::string text;
  for (const ManualFlag& flag : train_switches()) text += help_entry(flag.names[0], flag.text, 18);
  return text;
}

constexpr const char* kMore =
    "These are short names: every key of the configuration is a flag,\n"
    "--section.key VALUE. `dtrain --help all` and docs/configuration.md list them.\n";

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"train", "[CONFIG.yaml] [--section.key VALUE]...", "train (the default command)", run_train},
      {"eval", "RUN|CHECKPOINT [--checkpoint NAME] [--dataset FILE] [--split NAME]",
       "metrics of a checkpoint on a split", run_eval},
      {"predict", "RUN|CHECKPOINT INPUT... [--format csv|jsonl] [--out FILE]",
       "predictions as rows of text", run_predict},
      {"export", "RUN|CHECKPOINT --format safetensors|onnx|onnx-int8|torchscript [--out FILE]",
       "a file that other programs open", run_export},
      {"convert", "NAME SOURCE [--out FILE]", "raw data to one dtrain HDF5 file", run_convert,
       /*alone=*/true},
      {"synth", "TASK [--layout NAME] [--out FILE]", "generated data, as files or as HDF5",
       run_synth, /*alone=*/true},
      {"inspect", "FILE|RUN|CHECKPOINT|MODEL.pt [--verify]",
       "what is in a data file, a run, a checkpoint or a TorchScript file", run_inspect,
       /*alone=*/true},
      {"tune", "[CONFIG.yaml] [--minutes N] [--find-lr] [--section.key VALUE]...",
       "finds the settings that train fastest, and writes a config with them", run_tune},
      {"bench", "data|comm|step [CONFIG.yaml] [--section.key VALUE]...",
       "measures a run's loader, communicators or step alone", run_bench},
      {"trace",
       "[CONFIG.yaml] [--section.key VALUE]... [--steps N] [--operators] [--memory] [--out FILE]",
       "steps of all ranks on one clock, for ui.perfetto.dev; peak memory", run_trace},
      {"launch", "-np N [--hosts FILE] [--max-restarts K] [mpirun flags] -- train ...",
       "trains under mpirun, and goes on after failures from the newest checkpoint", run_launch,
       /*alone=*/true},
      {"doctor", "[CONFIG.yaml] [--section.key VALUE]... [--json FILE]",
       "checks the machine and the launch for the run of these arguments", run_doctor},
      {"plan", "[CONFIG.yaml] [--section.key VALUE]... --ranks 8,64,512 [--interconnect NAME]",
       "batches, memory, bytes and time of a run on other numbers of ranks", run_plan},
      {"report", "RUN [RUN2] [--out FILE] [--text] [--max-regression PERCENT]",
       "a run, or two compared, as a page with plots and a terminal card", run_report,
       /*alone=*/true},
      {"ls", "[FOLDER]", "the runs in a folder, one line each", run_ls, /*alone=*/true},
  };
  return all;
}

bool asks_for_all(const Arguments& arguments, size_t help) {
  return help + 1 < arguments.size() && arguments[help + 1] == "all";
}

std::string general_help(bool all) {
  std::string text =
      "dtrain: distributed training on GPUs and CPUs\n\n"
      "usage: [mpirun -np N] dtrain [COMMAND] [CONFIG.yaml] [--FLAG VALUE]...\n\n"
      "Without a command it trains; without a config it reads ./dtrain.yaml, and\n"
      "without that it trains the quick start on a head-pose set that it generates.\n"
      "`dtrain COMMAND --help` tells more of one command.\n\ncommands:\n";
  for (const Command& command : commands()) {
    // Its --help and the manual page have the usage
    text += help_entry(command.name, command.text, 11);
  }
  text +=
      str("\nflags of train", all ? ":\n" : ", those of every day [default]:\n",
          all ? "" : config::alias_help_text() + "\n", train_flags(),
          help_entry("--version", "of dtrain and of all libraries", 18),
          help_entry("--debug", "with any command: of an error, print all that a library said", 18),
          help_entry("--manual WHAT",
                     "print the completion for a shell (bash, zsh) or the manual page (man)", 18),
          "\n");
  return text + (all ? config::help_text() : kMore);
}

std::string train_help(bool all) {
  return str(
      "train a network: what the config says, changed by the flags\n"
      "Usage: [mpirun -np N] dtrain [train] [CONFIG.yaml] [--FLAG VALUE]...\n\n"
      "CONFIG.yaml: default ./dtrain.yaml, and without that the quick start of --task,\n"
      "on data that it generates. The run goes to runs/NAME/.\n\n",
      all ? "" : "Flags of every day [default]:\n" + config::alias_help_text() + "\n",
      train_flags(), "\n", all ? config::help_text() : kMore);
}

}  // namespace dtrain::cli
