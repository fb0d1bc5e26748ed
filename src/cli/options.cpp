#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/strings.h"
#include "core/wrap.h"
#include "job/find_checkpoint.h"
#include "job/process_context.h"
#include "job/quickstart.h"

namespace dtrain::cli {
namespace {

// CLI11 sets the column of a description but does not wrap its text.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(CLI::Formatter::make_option_desc(option), kHelpWidth - get_column_width());
  }
};

// A check of CLI11's IsMember describes itself as "{train,val,test}".
std::vector<std::string> members(const std::string& type) {
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return split(type.substr(begin + 1, end - begin - 1), ',');
}

ListedFlags listed(const CLI::App& app) {
  ListedFlags listed;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;  // a positional argument
    ManualFlag flag{{}, "", {}, option->get_description(), ""};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) {
      flag.values = members(option->get_type_name());
      flag.kind = !flag.values.empty()                                        ? join(flag.values, " | ")
                  : option->get_type_name().find("TEXT") != std::string::npos ? "text"
                                                                              : "number";
    }
    listed.flags.push_back(std::move(flag));
  }
  return listed;
}

// The flags nearest to those that are unknown. A key of the configuration has the flag in its first or last part.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& unknown) {
  std::vector<std::string> known, near;
  for (const ManualFlag& flag : listed(app).flags) known.insert(known.end(), flag.names.begin(), flag.names.end());
  for (const std::string& argument : unknown) {
    if (!argument.starts_with("--") || argument.size() > 64) continue;
    const std::string name = argument.substr(0, argument.find('='));
    const size_t dot = name.find('.');
    std::string found = nearest(name, known);
    if (found.empty() && dot != std::string::npos) found = nearest(name.substr(0, dot), known);
    if (found.empty() && dot != std::string::npos) found = nearest("--" + name.substr(dot + 1), known);
    if (!found.empty()) near.push_back("'" + found + "'");
  }
  return near.empty() ? "" : "; did you mean " + join(near, " and ") + "?";
}

}  // namespace

bool parse(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{kListFlags}) throw listed(app);
  app.formatter(std::make_shared<Formatter>());
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
    app.parse(reversed);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> unknown = app.remaining();  // in the given order; e.what() has the opposite one
    throw UsageError(str(app.get_name(), ": ", unknown.size() == 1 ? "this argument was" : "these arguments were",
                         " not expected: ", join(unknown, " "), suggestion(app, unknown), " (", app.get_name(),
                         " --help)"));
  } catch (const CLI::ParseError& e) {
    throw UsageError(str(app.get_name(), ": ", e.what(), " (", app.get_name(), " --help)"));
  }
}

CLI::Validator number_within(double least, double most) {
  const std::string range = str(least, " - ", most);
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool is_within = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return is_within ? "" : str(text, " is not in ", range);
  };
  return CLI::Validator(check, "FLOAT in [" + range + "]");
}

CLI::Validator not_empty() {
  return CLI::Validator([](const std::string& text) { return text.empty() ? "the name is empty" : ""; }, "");
}

std::optional<config::Loaded> parse_with_config(CLI::App& app, const std::vector<std::string>& arguments,
                                                bool check_dataset) {
  app.allow_extras();
  app.description(wrap(app.get_description(), kHelpWidth));
  app.footer(
      wrap("CONFIG.yaml and the keys of the configuration are those of `dtrain train`: --section.key VALUE, "
           "--dataset, --task, --batch-size, ... (`dtrain train --help`).",
           kHelpWidth));
  if (!parse(app, arguments)) return std::nullopt;
  std::vector<std::string> own_flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) own_flags.push_back("--" + name);
  }
  return config::load(app.remaining(), ".", {.other_flags = own_flags, .check_dataset = check_dataset});
}

Inputs inputs_of(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  const std::string data = config.data.file.empty() ? job::quickstart_file(config).string() : config.data.file;
  return {.files = {loaded.config_file, data, config.model.file, config.model.init}, .folders = {}};
}

void add_checkpoint_options(CLI::App& app, job::CheckpointName* name) {
  app.add_option("RUN|CHECKPOINT", name->path, "a run folder, or the folder of one of its checkpoints")->required();
  app.add_option("--checkpoint", name->choice,
                 "which checkpoint of a run: best (by the validation metric), newest, or a step such as 1200 (default: "
                 "newest)");
}

void InferenceOptions::add_to(CLI::App& app) {
  app.add_option("--batch-size", batch_size, "samples per rank and forward pass")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--workers", workers, "reader threads per rank; 0: from the cores of the rank")
      ->check(CLI::Range(0, 1024));
  app.add_option("--threads", threads,
                 "CPU threads per rank for the network; 0: its share of the cores, at most OMP_NUM_THREADS. On CPUs of "
                 "one kind, the same number gives the same predictions to the last bit, another number within 1e-5")
      ->check(CLI::Range(0, 4096));
  const auto set_amp = [this](const std::string& name) {
    amp = value_named<config::AmpMode>(name).value_or(config::AmpMode::kFp32);  // off: fp32
  };
  app.add_option_function<std::string>("--amp", set_amp, "fp32, tf32, bf16, fp16, auto or off (fp32)")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "auto", "off"}))
      ->default_str(str(amp));
  const auto set_device = [this](const std::string& name) { device = *value_named<config::DeviceType>(name); };
  app.add_option_function<std::string>("--device", set_device, "auto, cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->default_str(str(device));
  app.add_option("--module", module_file, "task module: the TorchScript file, if it is not where it was");
}

int run_on_device(const InferenceOptions& options, const std::function<int(job::ProcessContext&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);
  config::Device device;
  device.type = options.device;
  device.threads = options.threads;
  return job::launch(device, body);
}

}  // namespace dtrain::cli
