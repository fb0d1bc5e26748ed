// dtrain [COMMAND] ...: finds the command, runs it, and turns what it throws into a message and an
// exit code.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

#include "before_main.h"
#include "cli/commands.h"
#include "cli/manual.h"
#include "core/error.h"
#include "core/log.h"
#include "device/device.h"
#include "dist/failure.h"
#include "dist/launcher.h"
#include "dist/process_limits.h"
#include "job/signals.h"
#include "job/version.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace {

using dtrain::cli::Arguments;

// If a standard descriptor is closed, the next file that is opened gets its number, and output
// would go into that file. A closed standard output remains one that cannot be written: its results
// would be lost silently.
void occupy_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // Takes the lowest number
    static_cast<void>(::open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR));
  }
}

// Output may still be in a buffer, and a full disk is noticed only when the buffer is written.
void flush_standard_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    throw dtrain::OutputError(
        dtrain::str("cannot write the standard output: ", std::strerror(errno)));
  }
}

void refuse_several_processes(const dtrain::cli::Command& command) {
  const int processes = dtrain::dist::launcher_size_hint();
  if (processes == 1) return;
  throw dtrain::UsageError(dtrain::str("dtrain ", command.name,
                                       " is one process that uses all cores, and ", processes,
                                       " were started: give it without mpirun or srun"));
}

void refuse_removed_folder() {
  if (!dtrain::current_folder_was_removed()) return;
  throw dtrain::UsageError(
      "the current folder was removed: change to one that exists (cd) and start dtrain there");
}

// A path in the place of a command: what the user can do with it.
[[noreturn]] void refuse_path(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw dtrain::UsageError(dtrain::str(path, " is a folder, not a command: `dtrain convert NAME ",
                                         path, "` makes a data file of raw data, `dtrain --resume ",
                                         path, "` continues a run, `dtrain inspect ", path,
                                         "` shows what is in a run"));
  }
  throw dtrain::UsageError(dtrain::str(path, " is a file, not a command: `dtrain --dataset ", path,
                                       "` trains on a data file, `dtrain inspect ", path,
                                       "` shows what is in it; a config is named FILE.yaml"));
}

// A first word that is neither a flag nor a config file is a command; without one, dtrain trains.
bool trains(const Arguments& arguments) {
  return arguments.empty() || arguments[0].starts_with("--") || arguments[0].ends_with(".yaml") ||
         arguments[0].ends_with(".yml");
}

int dispatch(Arguments arguments) {
  if (!arguments.empty() &&
      (arguments[0] == "--version" || arguments[0] == "-v" || arguments[0] == "-V")) {
    std::puts(dtrain::job::version_text().c_str());
    return 0;
  }
  if (!arguments.empty() &&
      (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help")) {
    if (arguments.size() > 1 && !arguments[1].starts_with("-") &&
        !dtrain::cli::asks_for_all(arguments, 0))
      return dispatch({arguments[1], "--help"});
    std::fputs(dtrain::cli::general_help(dtrain::cli::asks_for_all(arguments, 0)).c_str(), stdout);
    return 0;
  }
  if (!arguments.empty() && arguments[0] == "--manual")
    return dtrain::cli::run_manual({arguments.begin() + 1, arguments.end()});
  refuse_removed_folder();
  if (trains(arguments)) return dtrain::cli::run_train(arguments);
  if (arguments[0].starts_with("-")) {
    throw dtrain::UsageError(
        dtrain::str("unknown flag ", arguments[0], ": flags begin with two dashes, as --name"));
  }
  std::vector<std::string> names;
  for (const auto& command : dtrain::cli::commands()) {
    if (arguments[0] == command.name) {
      const bool asks = std::any_of(arguments.begin(), arguments.end(), [](const std::string& a) {
        return a == "--help" || a == "-h";
      });
      if (command.alone && !asks) refuse_several_processes(command);
      arguments.erase(arguments.begin());
      return command.run(arguments);
    }
    names.emplace_back(command.name);
  }
  std::error_code unknown;
  if (std::filesystem::exists(arguments[0], unknown)) refuse_path(arguments[0]);
  const std::string near = dtrain::nearest(arguments[0], names);
  throw dtrain::UsageError(
      dtrain::str("unknown command '", arguments[0], "'",
                  near.empty() ? "" : dtrain::str("; did you mean '", near, "'?"),
                  " (known: ", dtrain::join(names, ", "), ")"));
}

// Before MPI starts, most failures are those of every rank: rank 0 prints, and the others give it
// time until mpirun has ended them. What fails on another host alone, its first rank prints when
// it has not been ended for a while.
void report_early(dtrain::dist::Failure failure) {
  if (dtrain::dist::launcher_rank_hint() == 0) return dtrain::dist::report(failure);
  const bool first_on_host = dtrain::dist::launcher_local_rank_hint() == 0;
  std::this_thread::sleep_for(std::chrono::seconds(first_on_host ? 2 : 3));
  if (!first_on_host) return;
  failure.message = dtrain::str("on host ", dtrain::host_name(), ": ", failure.message);
  dtrain::dist::report(failure);
}

// The end of a process without a GPU, unless it is built with sanitizers: static objects are not
// destroyed. LibTorch would take its operators apart one by one, for a fifth of the time of a short
// command, and none of ours has anything left to write. Profilers of GPUs and sanitizers do, at a
// usual end.
int leave(int code, bool with_gpus) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool kSanitized = true;
#else
  constexpr bool kSanitized = false;
#endif
  std::cout.flush();
  std::fflush(nullptr);
  if (!kSanitized && !with_gpus) std::_Exit(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argv + 1, argv + argc);
  // Of any command; `launch` gives it to the jobs that it starts.
  const bool passes_on = !arguments.empty() && arguments[0] == "launch";
  if (!passes_on && std::erase(arguments, "--debug") > 0) dtrain::log::show_details();
  // First, because operators of GPUs take a while to load: a training that is asked to stop
  // meanwhile saves and ends.
  if (trains(arguments) || arguments[0] == "train") dtrain::job::remember_early_signals();
  // A supervisor takes them from a queue (supervisor/signal_queue.h), and spawns children that
  // block none.
  if (arguments.empty() || arguments[0] != "launch") dtrain::admit_early_signals();
  occupy_standard_descriptors();
  dtrain::dist::report_when_terminated();
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit becomes an error of write()
  const bool with_gpus = dtrain::device::has_driver_library();
  try {
    dtrain::dist::raise_open_files();
    dtrain::dist::require_stack();
    if (with_gpus) dtrain::device::load_gpu_operators();
    const int code = dispatch(arguments);
    flush_standard_output();
    return leave(code, with_gpus);
  } catch (...) {
    const dtrain::dist::Failure failure = dtrain::dist::describe(std::current_exception());
    report_early(failure);
    return leave(failure.exit_code, with_gpus);
  }
}
