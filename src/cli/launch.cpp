// `dtrain launch`: a training run under mpirun that goes on after failures.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>

#include "cli/commands.h"
#include "cli/manual.h"
#include "cli/options.h"
#include "config/load.h"
#include "core/error.h"
#include "core/log.h"
#include "job/batch_choice.h"
#include "job/run_folder.h"
#include "os/file_system.h"
#include "os/process_info.h"
#include "supervisor/mpirun_command.h"
#include "supervisor/output_relay.h"
#include "supervisor/run_progress.h"
#include "supervisor/supervisor.h"
#include "text/strings.h"
#include "text/wrap.h"
#include "train/batch_arithmetic.h"

namespace dtrain::cli {
namespace {

constexpr std::array<std::string_view, 3> kRanksOfMpirun = {"-np", "-n", "-c"};

struct Options {
  supervisor::LaunchOptions launch;
  std::string hosts_file;
  int64_t metrics_port = -1;  // -1: the next one after those of the ranks
};

struct SplitArguments {
  // Flags of `launch`; those of mpirun, as they are given; what comes after "--"
  Arguments own, mpirun, train;
};

// By the names of our own flags: mpirun has many, with values of many forms.
SplitArguments split_arguments(const CLI::App& app, const Arguments& arguments) {
  SplitArguments split;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      split.train.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    const std::string name = word.substr(0, word.find('='));
    const bool is_np = std::ranges::find(kRanksOfMpirun, name) != kRanksOfMpirun.end();
    if (is_np || (name.starts_with("--") && app.get_option_no_throw(name) != nullptr) ||
        word == "-h") {
      split.own.push_back(is_np ? "--np" + word.substr(name.size()) : word);
      const bool has_value = name.size() == word.size() && word != "-h" && word != "--help";
      if (has_value && i + 1 < arguments.size()) split.own.push_back(arguments[++i]);
    } else {
      split.mpirun.push_back(word);
    }
  }
  if (!split.train.empty() && split.train[0] == "train") split.train.erase(split.train.begin());
  return split;
}

void add_options(CLI::App& app, Options& options) {
  supervisor::LaunchOptions& launch = options.launch;
  app.add_option("--np", launch.ranks, "ranks (also -np, as of mpirun)")
      ->check(whole_number(1, 1 << 20))
      ->required();
  app.add_option("--hosts", options.hosts_file,
                 "a host file of mpirun, with a line `NAME slots=RANKS` for each host. Those that "
                 "do not answer are left out, and come back at the next restart once they answer")
      ->check(not_empty());
  add_number(app, "--min-ranks", launch.min_ranks, 1, 1 << 20,
             "the fewest ranks to go on with, where hosts are lost");
  add_number(app, "--host-timeout", launch.host_timeout, 3, 86400,
             "seconds without an answer after which a host is left out");
  add_number(app, "--max-restarts", launch.restarts.most, 0, 1 << 20,
             "the most restarts; never more than 3 without a new checkpoint between them");
  add_number(app, "--grace", launch.grace, 0, 86400,
             "seconds that ranks have to save after SIGTERM, SIGINT (Ctrl-C), SIGHUP or SIGUSR1, "
             "until they are ended");
  app.add_option("--metrics-port", options.metrics_port,
                 "of the metrics of the launch; 0: any free port. Default: metrics.port + the "
                 "number of ranks")
      ->check(whole_number(0, 65535));
}

// What is left over is for mpirun, but not what is most likely a typo of a flag above, or meant
// for dtrain.
void check_flags_of_mpirun(const CLI::App& app, const Arguments& flags) {
  Arguments known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& flag : flags) {
    if (flag == "train" || flag.ends_with(".yaml") || flag.ends_with(".yml")) {
      throw UsageError(
          str("dtrain launch: '", flag, "' and what follows it is for dtrain: put -- before it"));
    }
    const bool has_dot = flag.starts_with("--") && flag.find('.') != std::string::npos;
    if (has_dot || config::names_key(flag) || flag == "--debug") {
      throw UsageError(str("dtrain launch: '", flag, "' is for dtrain: put -- before it"));
    }
    // In shorter ones of mpirun, two changed letters make one of ours
    constexpr size_t kShortest = 6;
    if (!flag.starts_with("--") || flag.size() < kShortest || flag == "--host") continue;
    const std::string near = nearest(flag, known);
    if (!near.empty())
      throw UsageError(str("dtrain launch: unknown flag '", flag, "'; did you mean '", near, "'?"));
  }
}

std::vector<supervisor::Host> read_hosts(const std::string& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) {
    const bool is_there = std::filesystem::exists(file, unknown);
    throw UsageError(
        str("--hosts ", file, is_there ? ": it is no file" : ": there is no such file"));
  }
  return supervisor::parse_hosts(read_text(file), file);
}

Arguments only_train(const Arguments& arguments) {
  for (const Command& command : commands()) {
    if (!arguments.empty() && arguments[0] == command.name) {
      throw UsageError(
          str("dtrain launch runs `train` alone; start `dtrain ", command.name, "` with mpirun"));
    }
  }
  for (const ManualFlag& flag : train_switches()) {
    for (const std::string& name : flag.names) {
      if (std::ranges::find(arguments, name) == arguments.end()) continue;
      throw UsageError(str("dtrain launch: ", name, " does not train: give it to `dtrain train`"));
    }
  }
  return arguments;
}

// The run folder is looked for from here.
void refuse_other_folder(const Arguments& flags) {
  constexpr std::array<std::string_view, 4> kFolders = {"--wdir", "-wdir", "--wd", "-wd"};
  for (size_t i = 0; i + 1 < flags.size(); ++i) {
    if (std::ranges::find(kFolders, flags[i]) == kFolders.end()) continue;
    std::error_code unknown;
    if (std::filesystem::equivalent(flags[i + 1], ".", unknown)) continue;
    throw UsageError(str(
        "dtrain launch: ", flags[i], " ", flags[i + 1],
        ": the ranks work in the folder of the launch, which watches their run there: cd to it"));
  }
}

// So that a restart does not take up what has become of the file meanwhile. The system limits a
// variable to 128 KiB; a larger file is read by each job.
std::string variable_of(const config::Loaded& loaded) {
  constexpr size_t kMost = 100'000;
  if (loaded.config_text.size() > kMost || loaded.config_text.find('\0') != std::string::npos)
    return "";
  return str(config::kLaunchConfig, "=", loaded.config_file, "\n", loaded.config_text);
}

supervisor::LaunchedRun run_of(const Arguments& train, const config::Loaded& loaded, int ranks) {
  const std::array<std::string, 4> of_run = {"--name", "--run.name", "--resume", "--run.resume"};
  supervisor::LaunchedRun run;
  run.name = job::run_name(loaded.config);
  run.runs = loaded.config.run.folder;
  run.program = {program_of(::getpid()).string(), "train"};
  for (const std::string& word : supervisor::without_flags(train, of_run))
    run.program.push_back(word);
  if (!loaded.config.run.resume.empty()) run.resume = {"--resume", loaded.config.run.resume};
  // After a restart without a checkpoint, --resume auto starts only what is named.
  if (loaded.is_demo && run.resume.empty())
    run.program.insert(run.program.end(), {"--task", str(loaded.config.task)});
  const bool resumed = !run.resume.empty();
  if (resumed && loaded.config.run.resume != "auto")
    run.from_step = supervisor::step_at(loaded.config.run.resume);
  const config::Train batches =
      job::choose_batch(loaded.config.train, loaded, ranks, resumed).train;
  run.global_batch = train::batch_arithmetic(batches, ranks, /*samples=*/1).global_batch;
  return run;
}

}  // namespace

int run_launch(const Arguments& arguments) {
  CLI::App app(
      wrap("trains under mpirun, and starts the run again after failures, from its newest "
           "checkpoint that verifies. What comes before -- and is not listed here goes to mpirun",
           kHelpWidth),
      "dtrain launch");
  app.footer(
      "dtrain launch -np N [OPTIONS] [mpirun flags] -- train [CONFIG.yaml] [--section.key "
      "VALUE]...\n");
  Options options;
  add_options(app, options);
  const SplitArguments split = split_arguments(app, arguments);
  if (!parse(app, arguments == Arguments{kListFlags} ? arguments : split.own)) return 0;
  supervisor::LaunchOptions& launch = options.launch;
  launch.mpirun = split.mpirun;
  check_flags_of_mpirun(app, launch.mpirun);
  refuse_other_folder(launch.mpirun);
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the output that leaves does not end the run
  // A parent may have ignored it, and then no child has an exit code
  std::signal(SIGCHLD, SIG_DFL);
  supervisor::SignalQueue signals;  // before threads are started
  const supervisor::OutputRelay relay;
  if (launch.min_ranks > launch.ranks) {
    throw UsageError(
        str("dtrain launch: --min-ranks ", launch.min_ranks, " is more than -np ", launch.ranks));
  }
  if (!options.hosts_file.empty()) {
    launch.hosts = read_hosts(options.hosts_file);
    const int slots = supervisor::slots_of(launch.hosts);
    if (launch.ranks > slots) {
      throw UsageError(str("--hosts ", options.hosts_file, " has room for ", slots,
                           slots == 1 ? " rank" : " ranks", ", and -np is ", launch.ranks,
                           ": give its hosts more slots"));
    }
    supervisor::put_this_host_first(launch.hosts);
  }
  const config::Loaded loaded = config::load(only_train(split.train));
  supervisor::LaunchedRun run = run_of(split.train, loaded, launch.ranks);
  run.command = arguments;
  run.variable = variable_of(loaded);
  const bool is_named = !run.name.empty();
  const std::filesystem::path folder = is_named ? run.runs / run.name : "";
  supervisor::LaunchRecord record(folder, !run.resume.empty(), run.from_step, real_clock());
  const int64_t port = loaded.config.metrics.port;
  const int64_t next_port = port == 0 ? 0 : port + launch.ranks;
  Arguments causes;
  for (const supervisor::EndCause cause : supervisor::kRestarted) causes.push_back(str(cause));
  monitoring::LaunchMetrics metrics(loaded.config.metrics,
                                    options.metrics_port >= 0 ? options.metrics_port : next_port,
                                    loaded.config.run.folder, run.name, causes);
  log::info(str(
      "launch of ", is_named ? "run " + folder.string() : "a new run in " + run.runs.string(),
      ": kill -USR1 ", ::getpid(), " or Ctrl-C saves and stops",
      metrics.address().empty() ? "" : str("; metrics on http://", metrics.address(), "/metrics")));
  return supervisor::supervise(launch, run, signals, record, metrics, real_clock());
}

}  // namespace dtrain::cli
