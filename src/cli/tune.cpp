// `dtrain tune`: the settings of a run that train most samples per second, as a config.

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "cli/table_output.h"
#include "core/error.h"
#include "core/progress_line.h"
#include "dist/agree.h"
#include "job/process_context.h"
#include "job/signals.h"
#include "os/file_system.h"
#include "text/strings.h"
#include "tune/memory_trial.h"
#include "tune/patch.h"
#include "tune/tune_report.h"
#include "tune/tuner.h"

namespace dtrain::cli {
namespace {

struct Options {
  tune::TuneOptions search;
  std::string out;  // "": named for the config
  std::string command;
  TableOutput output;
};

// Opens both files before the work, which would be lost where they cannot be written. Returns the
// patch, on rank 0 alone. Collective.
std::unique_ptr<RowOutput> open_outputs(dist::Communicator& host, const config::Loaded& loaded,
                                        Options& options) {
  const Inputs inputs = inputs_of(loaded);
  std::unique_ptr<RowOutput> patch;
  dist::agree_on_rank0(host, [&] {
    if (is_standard_output(options.out))
      throw UsageError("--out: the config needs the name of a file");
    check_distinct({{"--out", options.out}, {"--json", options.output.file()}});
    protect(options.out, inputs);
    check_new_file(options.out, options.output.force());
    patch = std::make_unique<RowOutput>(options.out, options.output.force());
  });
  options.output.open(host, inputs);
  return patch;
}

int find(job::ProcessContext& process, const config::Loaded& loaded, Options& options) {
  const std::unique_ptr<RowOutput> out = open_outputs(process.host, loaded, options);
  const std::atomic<bool>& stop = job::install_stop_signals();
  std::optional<ProgressLine> line;
  if (stderr_is_terminal() && !process.world.launched)
    line.emplace(ProgressLine::Last::kOfLongWork);
  const tune::TuneResult result =
      tune::tune(process, loaded, options.search, stop, [&](const Progress& progress) {
        if (line) line->show(progress);
      });
  line.reset();
  std::string patch;
  std::exception_ptr failure;  // only after the result, which took minutes
  try {
    if (out && !result.interrupted) {
      out->write(tune::patch_text(result, loaded, options.command));
      out->close();
      patch = options.out;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  options.output.write(
      process.host, [&] { return tune::text_of(result, patch); },
      [&] { return tune::json_of(result, patch); });
  dist::agree_on_rank0(process.host, [&] {
    if (failure) std::rethrow_exception(failure);
  });
  return result.interrupted ? job::kExitInterrupted : 0;
}

// `--lr` without a value is the former name of --find-lr; with a value it is the rate.
Arguments with_find_lr(Arguments arguments) {
  const auto is_value = [](const std::string& word) {
    return !word.starts_with("--") && !word.ends_with(".yaml") && !word.ends_with(".yml");
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size() && is_value(arguments[i + 1]);
    if (arguments[i] == "--lr" && !has_value) arguments[i] = "--find-lr";
  }
  return arguments;
}

}  // namespace

int run_tune(const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == tune::kMemoryTrial)
    return tune::run_memory_trial(arguments);
  CLI::App app(
      "finds the settings with which a run trains most samples per second, by trying them: the "
      "largest batch that fits into memory, precision, memory format, checkpointing, the batch, "
      "reader threads and read-ahead. The global batch stays as it is. Writes a config with them. "
      "A key that a flag sets is not tuned; --accumulate says how large the global batch is. "
      "Nothing else is written but quick-start data",
      "dtrain tune");
  Options options;
  add_number(app, "--minutes", options.search.minutes, 0.01, 10000, "about how long it may take");
  add_number(app, "--seconds", options.search.seconds, 0.01, 3600,
             "of the longest measurement of one candidate");
  app.add_option("--memory-budget", options.search.memory_budget,
                 "memory that a rank may use, as 800MiB or 12GiB (default: its share of what the "
                 "GPU has, or, on the CPU, of what the host and its control group have left)")
      ->check(number_within(1, 1e15).description(""))
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  app.add_flag(
      "--free-global-batch", options.search.free_global_batch,
      "let the global batch change with the batch; the learning rate may have to change with it");
  app.add_flag("--find-lr", options.search.range_test,
               "test learning rates too: the rate rises exponentially until the loss does. --lr "
               "without a value is the same");
  app.add_option("--out", options.out,
                 "the config to write (default: CONFIG.tuned.yaml in the current folder)");
  options.output.add_to(app);
  const std::optional<config::Loaded> loaded = parse_with_config(app, with_find_lr(arguments));
  if (!loaded) return 0;
  if (!loaded->config.run.resume.empty()) {
    throw UsageError(
        "dtrain tune tries the settings of a new run: leave --resume out. A run that is resumed "
        "takes --batch-size, --workers and --amp from the command line");
  }
  if (options.out.empty()) {
    options.out =
        tune::patch_file(loaded->config_file.empty() ? "dtrain.yaml" : loaded->config_file);
  }
  options.command = "dtrain tune" + (arguments.empty() ? "" : " " + join(arguments, " "));
  std::signal(SIGPIPE, SIG_IGN);
  return job::launch(loaded->config.device,
                     [&](job::ProcessContext& process) { return find(process, *loaded, options); });
}

}  // namespace dtrain::cli
