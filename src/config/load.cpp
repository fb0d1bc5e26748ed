#include "config/load.h"

#include <algorithm>

#include "config/config_builder.h"
#include "config/flags.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/strings.h"

namespace dtrain::config {
namespace {

namespace fs = std::filesystem;

// The data set that `--dataset NAME` trains on; nullptr: none of this name.
const catalog::DataSet* known_data_set(std::string_view name) {
  const catalog::DataSet* set = catalog::data_set_named(name);
  return set == nullptr || set->config.empty() ? nullptr : set;
}

// The embedded config of a run of this task without data.
std::string quickstart_config(std::string_view task) {
  const catalog::TaskId id = value_named<catalog::TaskId>(task).value_or(catalog::TaskId{});
  const std::string& own = catalog::row(id).quickstart;
  return own.empty() ? catalog::row(catalog::TaskId{}).quickstart : own;
}

std::string in_folder(const fs::path& folder, const std::string& file) {
  return (folder / file).lexically_normal().string();
}

// False as well for a path that cannot be examined (a link to itself, a folder without permission):
// opening it says why.
bool there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The text of a config file; the reason why it cannot be read is added to `builder`.
std::optional<std::string> read_config(ConfigBuilder& builder, const fs::path& path, const std::string& name) {
  constexpr std::uintmax_t kLargest = 1 << 20;
  std::error_code code;
  if (!fs::exists(path, code)) {
    builder.add_problem(name, "no such config file; `dtrain --print-config` prints one to start from");
  } else if (!fs::is_regular_file(path, code)) {
    builder.add_problem(name, "is not a file; expected a config in YAML");
  } else if (fs::file_size(path, code) > kLargest) {
    builder.add_problem(name, "is larger than 1 MiB; expected a config in YAML");
  } else {
    try {
      return read_text(path);
    } catch (const Error& error) {
      builder.add_problem(name, error.what());
    }
  }
  return std::nullopt;
}

void apply_embedded(ConfigBuilder& builder, const std::string& name) {
  apply_yaml(builder, embedded(name).value(), "configs/" + name + ".yaml (embedded)");
}

// --dataset: a known name, or a path. Returns nullptr for a path.
const catalog::DataSet* resolve_dataset(ConfigBuilder& builder, Flag& flag, const fs::path& folder) {
  if (const catalog::DataSet* set = known_data_set(flag.value)) {
    flag.value = in_folder(folder, "data/" + set->name + ".h5");
    return set;
  }
  const bool like_a_path = flag.value.find_first_of("./") != std::string::npos || there(folder / flag.value);
  if (!like_a_path) {
    const std::vector<std::string> known = catalog::trainable_data_sets();
    const std::string near = flag.value.size() > 64 ? "" : nearest(flag.value, known);
    builder.add_problem(flag.spelling, str(in_quotes(flag.value), " is neither a known data set (", join(known, ", "),
                                           ") nor a file", near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  return nullptr;
}

}  // namespace

bool Loaded::gives(std::string_view path) const { return std::ranges::count(given, path) > 0; }

Loaded load(const std::vector<std::string>& arguments, const fs::path& folder, const LoadOptions& options) {
  ConfigBuilder builder;
  Config scratch;
  CommandLine line = split_command_line(arguments, describe(scratch), options.other_flags);
  const catalog::DataSet* dataset = nullptr;
  std::string task;
  bool names_data = false;
  for (Flag& flag : line.flags) {
    if (flag.spelling == "--dataset") dataset = resolve_dataset(builder, flag, folder);
    names_data = names_data || flag.path == "data.file";
    if (flag.path == "task.name") task = flag.value;
  }

  Loaded loaded;
  std::vector<std::string> sources;
  const auto apply = [&](const std::string& name) {
    apply_embedded(builder, name);
    sources.push_back("the embedded " + name);
  };
  const std::string file = !line.config_file.empty()            ? line.config_file
                           : fs::exists(folder / "dtrain.yaml") ? "dtrain.yaml"
                                                                : "";
  if (dataset != nullptr) apply(dataset->config);
  if (file.empty() && !names_data) apply(quickstart_config(task));
  if (!file.empty()) {
    if (const auto text = read_config(builder, folder / file, file)) loaded.given = apply_yaml(builder, *text, file);
    sources.insert(sources.begin(), file);
  }
  for (const Flag& flag : line.flags) {
    builder.set(*builder.find(flag.path), flag.value, flag.spelling);
    if (!loaded.gives(flag.path)) loaded.given.push_back(flag.path);
  }
  builder.add_problems(std::move(line.problems));
  builder.add_problems(broken_run_rules(builder.config(), builder.places()));
  if (builder.config().run.resume.empty()) {
    builder.add_problems(broken_rules(builder.config(), builder.places(), loaded.given));
  }

  loaded.config = builder.finish();
  loaded.places = builder.places();
  loaded.source = sources.empty() ? "the defaults" : join(sources, " over ");
  if (options.check_dataset && dataset != nullptr && !there(loaded.config.data.file)) {
    const bool one_file = catalog::row(catalog::task_named(dataset->task)).sample == catalog::Sample::kSet;
    throw DataError(str(loaded.config.data.file, " does not exist: make it with `dtrain convert ", dataset->name,
                        one_file ? " FILE.npz`" : " DIR`"));
  }
  return loaded;
}

Config from_yaml(std::string_view text, std::string_view name) {
  ConfigBuilder builder;
  const std::vector<std::string> given = apply_yaml(builder, text, std::string(name));
  builder.add_problems(broken_run_rules(builder.config(), builder.places()));
  builder.add_problems(broken_rules(builder.config(), builder.places(), given));
  return builder.finish();
}

SavedConfig saved_config(std::string_view text, std::string_view name) {
  ConfigBuilder builder(/*saved=*/true);
  apply_yaml(builder, text, std::string(name));
  builder.add_problems(broken_rules(builder.config(), builder.places(), /*given=*/{}));
  SavedConfig saved{builder.finish(), ""};
  if (!builder.former_units().empty()) {
    saved.notice = str(name, " has former units of intervals: ", join(builder.former_units(), ", "));
  }
  return saved;
}

}  // namespace dtrain::config
