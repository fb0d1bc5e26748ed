#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>

#include "config/keys.h"
#include "core/error.h"
#include "job/find_checkpoint.h"
#include "job/process_context.h"
#include "job/quickstart.h"
#include "text/number_text.h"
#include "text/strings.h"
#include "text/wrap.h"

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
    ManualFlag flag{.text = option->get_description()};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) {
      flag.values = members(option->get_type_name());
      flag.kind = !flag.values.empty() ? join(flag.values, " | ")
                  : option->get_type_name().find("TEXT") != std::string::npos ? "text"
                                                                              : "number";
    }
    listed.flags.push_back(std::move(flag));
  }
  return listed;
}

// The flags nearest to those that are unknown. A key of the configuration has the flag in its first
// or last part.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& unknown) {
  std::vector<std::string> known, near;
  for (const ManualFlag& flag : listed(app).flags)
    known.insert(known.end(), flag.names.begin(), flag.names.end());
  for (const std::string& argument : unknown) {
    if (!argument.starts_with("--") || argument.size() > 64) continue;
    const std::string name = argument.substr(0, argument.find('='));
    const size_t dot = name.find('.');
    std::string found = nearest(name, known);
    if (found.empty() && dot != std::string::npos) found = nearest(name.substr(0, dot), known);
    if (found.empty() && dot != std::string::npos)
      found = nearest("--" + name.substr(dot + 1), known);
    if (!found.empty()) near.push_back("'" + found + "'");
  }
  return near.empty() ? "" : "; did you mean " + join(near, " and ") + "?";
}

// CLI11 leaves out the empty parts of a list: "8,,9" would be 8 and 9.
void refuse_empty_parts(const CLI::App& app, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const size_t end = std::min(words[i].find('='), words[i].size());
    const CLI::Option* option =
        words[i].starts_with("--") ? app.get_option_no_throw(words[i].substr(0, end)) : nullptr;
    if (option == nullptr || option->get_delimiter() == '\0') continue;
    const std::string next = i + 1 < words.size() ? words[i + 1] : "";
    const std::string value = end < words[i].size() ? words[i].substr(end + 1) : next;
    if (value.empty()) {
      throw UsageError(str(app.get_name(), ": ", words[i].substr(0, end), ": a value is missing (",
                           app.get_name(), " --help)"));
    }
    const std::vector<std::string> parts = split(value, option->get_delimiter());
    if (std::ranges::none_of(parts, [](const std::string& part) { return trimmed(part).empty(); }))
      continue;
    throw UsageError(str(app.get_name(), ": ", words[i].substr(0, end), ": '", value,
                         "' has an empty part (", app.get_name(), " --help)"));
  }
}

// As in `dtrain train`, a flag of true or false means true if it stands alone. CLI11 would take any
// word after an optional value for it; here a path or a flag is none.
void complete_switches(const CLI::App& app, std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const CLI::Option* option =
        words[i].starts_with("--") ? app.get_option_no_throw(words[i]) : nullptr;
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    if (members(option->get_type_name()) != std::vector<std::string>{"true", "false"}) continue;
    const bool is_alone = i + 1 == words.size() || words[i + 1].starts_with("-") ||
                          words[i + 1].find_first_of("/.") != std::string::npos;
    if (is_alone) words[i] += "=true";
  }
}

}  // namespace

std::vector<std::string> in_own_words(const CLI::App& app,
                                      const std::vector<std::string>& arguments) {
  const auto has = [&](const std::string& name) {
    return app.get_option_no_throw("--" + name) != nullptr;
  };
  std::map<std::string, std::string> own_words;  // maps a flag's other names to the app's name
  config::Config scratch;
  for (const config::Option& option : config::describe(scratch)) {
    const std::vector<std::string> names = option.names();
    const auto own = std::ranges::find_if(names, has);
    if (own == names.end()) continue;
    for (const std::string& name : names) {
      if (!has(name)) own_words["--" + name] = "--" + *own;
    }
  }
  std::vector<std::string> words = arguments;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {  // no flag after it
    std::string& word = words[i];
    const size_t end = std::min(word.find('='), word.size());
    const std::string given = word.substr(0, end);
    const auto found = own_words.find(given);
    if (found == own_words.end()) continue;
    word.replace(0, end, found->second);
    // The key is a path in `dtrain train` too: names of data sets are of the other two flags.
    if (given != "--data.file") continue;
    const size_t value = found->second.size() + 1;
    if (word.size() > value && catalog::data_set_named(word.substr(value)) != nullptr)
      word.insert(value, "./");
    if (word.size() < value && i + 1 < words.size() &&
        catalog::data_set_named(words[i + 1]) != nullptr) {
      words[i + 1].insert(0, "./");
    }
  }
  return words;
}

bool parse(CLI::App& app, const std::vector<std::string>& arguments) {
  app.set_help_flag("-h,--help", "print this and stop");  // after all others
  if (arguments == std::vector<std::string>{kListFlags}) throw listed(app);
  app.formatter(std::make_shared<Formatter>());
  try {
    std::vector<std::string> words = in_own_words(app, arguments);
    complete_switches(app, words);
    refuse_empty_parts(app, words);
    // CLI11 takes them from the back
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ExtrasError&) {
    // In the given order; e.what() has the opposite one
    const std::vector<std::string> unknown = app.remaining();
    throw UsageError(str(app.get_name(), ": ",
                         unknown.size() == 1 ? "this argument was" : "these arguments were",
                         " not expected: ", join(unknown, " "), suggestion(app, unknown), " (",
                         app.get_name(), " --help)"));
  } catch (const CLI::ParseError& e) {
    throw UsageError(str(app.get_name(), ": ", e.what(), " (", app.get_name(), " --help)"));
  }
}

CLI::Validator number_within(double least, double most) {
  const std::string range = str(least, " - ", most);
  const auto check = [=](const std::string& text) {
    const std::optional<double> value = parse_number<double>(text);
    const bool is_within = value && *value >= least && *value <= most;
    return is_within ? "" : str(text.empty() ? "''" : text, " is not in ", range);
  };
  return CLI::Validator(check, "FLOAT in [" + range + "]");
}

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  const std::string range = str(least, " - ", most);
  const auto check = [=](const std::string& text) {
    const std::optional<uint64_t> value = parse_number<uint64_t>(text);
    const bool has_leading_zero = text.size() > 1 && text[0] == '0';
    const bool is_within = value && !has_leading_zero && *value >= least && *value <= most;
    return is_within ? "" : str(text.empty() ? "''" : text, " is not in ", range);
  };
  return CLI::Validator(check, most == kAnySeed ? "" : "INT in [" + range + "]");
}

template <typename Number>
void add_number(CLI::App& app, const std::string& name, Number& value,
                std::type_identity_t<Number> least, std::type_identity_t<Number> most,
                const std::string& text) {
  CLI::Option* option = app.add_option(name, value, text)->capture_default_str();
  if constexpr (std::is_integral_v<Number>) {
    option->check(whole_number(static_cast<uint64_t>(least), static_cast<uint64_t>(most)));
  } else {
    option->check(number_within(least, most));
  }
}
template void add_number(CLI::App&, const std::string&, int&, int, int, const std::string&);
template void add_number(CLI::App&, const std::string&, int64_t&, int64_t, int64_t,
                         const std::string&);
template void add_number(CLI::App&, const std::string&, uint64_t&, uint64_t, uint64_t,
                         const std::string&);
template void add_number(CLI::App&, const std::string&, double&, double, double,
                         const std::string&);

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? "the name is empty" : ""; }, "");
}

std::optional<config::Loaded> parse_with_config(CLI::App& app,
                                                const std::vector<std::string>& arguments,
                                                bool check_dataset) {
  app.allow_extras();
  app.description(wrap(app.get_description(), kHelpWidth));
  app.footer(
      wrap("CONFIG.yaml and the keys of the configuration are those of `dtrain train`: "
           "--section.key VALUE, --dataset, --task, --batch-size, ... (`dtrain train --help`).",
           kHelpWidth));
  if (!parse(app, arguments)) return std::nullopt;
  std::vector<std::string> own_flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) own_flags.push_back("--" + name);
  }
  return config::load(app.remaining(), ".",
                      {.other_flags = own_flags, .check_dataset = check_dataset});
}

Inputs inputs_of(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  const std::string data =
      config.data.file.empty() ? job::quickstart_file(config).string() : config.data.file;
  return {.files = {loaded.config_file, data, config.model.file, config.model.init}, .folders = {}};
}

void add_checkpoint_options(CLI::App& app, job::CheckpointName* name) {
  app.add_option("RUN|CHECKPOINT", name->path,
                 "a run folder, or the folder of one of its checkpoints")
      ->required();
  app.add_option("--checkpoint", name->choice,
                 "which checkpoint of a run: best (by the validation metric), newest, or a step "
                 "such as 1200 (default: newest)");
}

void add_dataset_option(CLI::App& app, std::string* file, const std::string& text) {
  const auto set_file = [file](const std::string& name) {
    *file = name;
    const catalog::DataSetEntry* set = catalog::data_set_named(name);
    if (set == nullptr) return;
    *file = config::file_of_data_set(name);
    config::require_data_set(*set, *file);
  };
  app.add_option_function<std::string>("--dataset", set_file, text);
}

void InferenceOptions::add_verify(CLI::App& app) {
  const auto set_verify = [this](const std::string& value) {
    verify = value == "true" ? data::Verify::kAlways : data::Verify::kNever;
  };
  app.add_option_function<std::string>("--data.verify", set_verify,
                                       "compare the samples of a data file with their checksums "
                                       "while they are read: true or false; alone: true")
      ->check(CLI::IsMember({"true", "false"}))
      ->default_str("true");
}

void InferenceOptions::add_batch_size(CLI::App& app, const std::string& text) {
  add_number(app, "--batch-size", batch_size, 1, 1 << 20, text);
}

void InferenceOptions::add_workers(CLI::App& app) {
  app.add_option("--workers", workers, "reader threads per rank; 0: from the cores of the rank")
      ->check(whole_number(0, 1024));
}

void InferenceOptions::add_threads(CLI::App& app) {
  app.add_option("--threads", threads,
                 "CPU threads per rank for the network; 0: its share of the cores, at most "
                 "OMP_NUM_THREADS. On CPUs of one kind, the same number gives the same predictions "
                 "to the last bit, another number within 1e-5")
      ->check(whole_number(0, 4096));
}

void InferenceOptions::add_module(CLI::App& app, const std::string& text) {
  app.add_option("--module", module_file, text);
}

void InferenceOptions::add_to(CLI::App& app) {
  add_batch_size(app, "samples per rank and forward pass");
  const auto set_amp = [this](const std::string& name) {
    amp = value_named<config::AmpMode>(name).value_or(config::AmpMode::kFp32);  // off: fp32
  };
  app.add_option_function<std::string>("--amp", set_amp,
                                       "auto, fp16, bf16, tf32, fp32 or off (fp32)")
      ->check(CLI::IsMember({"auto", "fp16", "bf16", "tf32", "fp32", "off"}))
      ->default_str(str(amp));
  add_workers(app);
  const auto set_device = [this](const std::string& name) {
    device = *value_named<config::DeviceType>(name);
  };
  app.add_option_function<std::string>("--device", set_device, "auto, cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->default_str(str(device));
  add_threads(app);
  add_module(app, "task module: the TorchScript file, if it is not where it was");
}

int run_on_device(const InferenceOptions& options,
                  const std::function<int(job::ProcessContext&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);
  config::Device device;
  device.type = options.device;
  device.threads = options.threads;
  return job::launch(device, body);
}

}  // namespace dtrain::cli
