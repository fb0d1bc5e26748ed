#pragma once

// How the commands without a configuration file parse their flags, and the flags that eval and
// predict share.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/manual.h"
#include "config/choices.h"
#include "config/load.h"
#include "data/loader/checksum_budget.h"
#include "os/output_guard.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI
namespace dtrain::job {
struct CheckpointName;
struct ProcessContext;
}  // namespace dtrain::job

namespace dtrain::cli {

// Parses the arguments of a command. False: --help was given and has been printed. UsageError
// otherwise, with CLI11's own text (its exit codes are not ours). Throws ListedFlags for
// kListFlags, which no command line can hold.
bool parse(CLI::App& app, const std::vector<std::string>& arguments);

// The same for a command that works on a run: what the app does not know is the configuration,
// `[CONFIG.yaml] [--section.key VALUE]...` as of `dtrain train`. nullopt: --help. Errors as of
// config::load(). With `check_dataset`, the file of --dataset NAME has to exist.
std::optional<config::Loaded> parse_with_config(CLI::App& app,
                                                const std::vector<std::string>& arguments,
                                                bool check_dataset = true);

// What such a command reads, for protect(): the config file and the files that the configuration
// names. Of the quick start, the generated data.
Inputs inputs_of(const config::Loaded&);

// Checks of a flag: a number from `least` to `most`, in decimal digits. CLI11's own checks let nan
// pass, which is in no order, clip what is beyond 64 bits, and take 010 for 8.
CLI::Validator number_within(double least, double most);
CLI::Validator whole_number(uint64_t least, uint64_t most);
inline constexpr uint64_t kAnySeed = std::numeric_limits<uint64_t>::max();  // the largest
CLI::Validator not_empty();  // checks a file name: "" is usually a variable that is not set

// A flag for a number from `least` to `most`; --help shows what the value is so far.
template <typename Number>
void add_number(CLI::App&, const std::string& name, Number& value,
                std::type_identity_t<Number> least, std::type_identity_t<Number> most,
                const std::string& text);

struct ListedFlags {
  std::vector<ManualFlag> flags;
};
inline const std::string kListFlags("\0flags", 6);

// The options that several commands have are made here, so that they have one name, in one order
// (tests/cli/help_test.cpp): what is read, how it is computed, the command's own, what is written.

// The positional RUN|CHECKPOINT and --checkpoint of the commands that take one.
void add_checkpoint_options(CLI::App&, job::CheckpointName*);

// --dataset FILE|NAME. NAME: the file of `dtrain convert NAME` (config/load.h); DataError
// if it is not there.
void add_dataset_option(CLI::App&, std::string* file, const std::string& text);

// `arguments` with each flag that is a name of a key of the configuration (config::Option::names())
// as the name by which the app has it: --device.type as --device. A data set's name after
// --data.file becomes a path, ./NAME. Pure.
std::vector<std::string> in_own_words(const CLI::App&, const std::vector<std::string>& arguments);

// How a checkpoint is run, not what it is run on.
struct InferenceOptions {
  config::AmpMode amp = config::AmpMode::kFp32;
  config::DeviceType device = config::DeviceType::kAuto;
  int64_t batch_size = 64, workers = 0;  // per rank; see job::reader_threads()
  // Threads of a rank for the network; 0: its share of the cores, at most OMP_NUM_THREADS
  int64_t threads = 0;
  std::string module_file;  // where the TorchScript file is now; "": where it was while training
  data::Verify verify = data::Verify::kAlways;  // applies to the samples of a data file

  void add_to(CLI::App&);      // all of them, in the order of the functions below
  void add_verify(CLI::App&);  // not among them: it is of the data
  void add_batch_size(CLI::App&, const std::string& text);
  void add_workers(CLI::App&);
  void add_threads(CLI::App&);
  void add_module(CLI::App&, const std::string& text);
};

// job::launch() on the device of the options. A closed pipe becomes an error of write() instead of
// a signal.
int run_on_device(const InferenceOptions&, const std::function<int(job::ProcessContext&)>& body);

}  // namespace dtrain::cli
