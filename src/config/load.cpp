#include "config/load.h"

#include <algorithm>
#include <cstdlib>

#include "config/config_builder.h"
#include "config/flags.h"
#include "config/plain_text.h"
#include "core/error.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

namespace fs = std::filesystem;

// The data set that `--dataset NAME` trains on; nullptr: none of this name.
const catalog::DataSetEntry* known_data_set(std::string_view name) {
  const catalog::DataSetEntry* set = catalog::data_set_named(name);
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

// The text of a config file; the reason why it cannot be read is added to `builder`.
std::optional<std::string> read_config(ConfigBuilder& builder, const fs::path& path,
                                       const std::string& name) {
  constexpr std::uintmax_t kLargest = 1 << 20;
  std::error_code code;
  if (!is_there(path)) {
    builder.add_problem(name,
                        "no such config file; `dtrain --print-config` prints one to start from");
  } else if (!fs::is_regular_file(path, code)) {
    builder.add_problem(name, "is not a file; expected a config in YAML");
  } else if (name.ends_with(".h5") || name.ends_with(".hdf5")) {
    builder.add_problem(
        name, "is a data file, not a config in YAML; `--dataset " + name + "` trains on it");
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
const catalog::DataSetEntry* resolve_dataset(ConfigBuilder& builder, Flag& flag,
                                             const fs::path& folder) {
  if (const catalog::DataSetEntry* set = known_data_set(flag.value)) {
    flag.value = in_folder(folder, file_of_data_set(set->name));
    return set;
  }
  const bool like_a_path =
      flag.value.find_first_of("./") != std::string::npos || is_there(folder / flag.value);
  if (!like_a_path) {
    const std::vector<std::string> known = catalog::trainable_data_sets();
    const std::string near = flag.value.size() > 64 ? "" : nearest(flag.value, known);
    builder.add_problem(flag.spelling, str(in_quotes(flag.value), " is neither a known data set (",
                                           join(known, ", "), ") nor a file",
                                           near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  return nullptr;
}

// Applies the layers to a builder, in the order of its methods.
class Layers {
 public:
  explicit Layers(const fs::path& folder) : folder_(folder) {}

  void flags_name(const CommandLine& line) {
    for (const Flag& flag : line.flags) {
      names_data_ = names_data_ || flag.path == "data.file";
      if (flag.path == "task.name") task_ = flag.value;
    }
    if (const char* launch = std::getenv(kLaunchConfig)) {
      const std::string_view both = launch;
      const size_t end = std::min(both.find('\n'), both.size());
      file_ = both.substr(0, end);
      text_ = both.substr(std::min(end + 1, both.size()));
    } else {
      file_ = line.config_file;
      if (file_.empty() && is_there(folder_ / "dtrain.yaml")) file_ = "dtrain.yaml";
    }
    loaded_.is_demo = file_.empty() && !names_data_ && task_.empty();
  }

  void embedded_config(const catalog::DataSetEntry* dataset) {
    if (dataset != nullptr) apply_named(dataset->config);
    if (file_.empty() && !names_data_) apply_named(quickstart_config(task_));
    if (builder.config().train.global_batch > 0) {
      embedded_batch_ = {builder.config().train.global_batch, join(sources_, " over ")};
    }
    embedded_rate_ = !builder.where("optimizer.lr").empty();
    loaded_.of_rate = embedded_batch_;
  }

  void file() {
    if (file_.empty()) return;
    if (!text_) text_ = read_config(builder, folder_ / file_, file_);
    if (text_) {
      loaded_.given = apply_yaml(builder, *text_, file_);
      loaded_.config_file = file_;
      loaded_.config_text = *text_;
    }
    sources_.insert(sources_.begin(), file_);
    if (embedded_rate_ && !loaded_.gives("optimizer.lr"))
      return;  // the rate is still that of the embedded config
    if (loaded_.gives("train.global_batch")) {
      loaded_.of_rate = {builder.config().train.global_batch, file_};
    } else if (gives_batch()) {
      loaded_.of_rate = {};
    }
  }

  void flags(const CommandLine& line) {
    for (const Flag& flag : line.flags) {
      builder.set(*builder.find(flag.path), flag.value, flag.spelling);
      if (!loaded_.gives(flag.path)) loaded_.given.push_back(flag.path);
      if (flag.path == "optimizer.lr") loaded_.of_rate = {};
    }
    builder.add_problems(line.problems);
  }

  // A batch size or accumulate of the user takes the place of an embedded global batch, but not of
  // the user's own.
  void batch() {
    if (embedded_batch_.global_batch == 0 || loaded_.gives("train.global_batch") || !gives_batch())
      return;
    loaded_.overruled = embedded_batch_;
    const char* chosen =
        loaded_.gives("train.batch_size") ? "train.batch_size" : "train.accumulate";
    builder.set(*builder.find("train.global_batch"), "0", builder.where(chosen));
  }

  // Throws all problems at once.
  Loaded loaded() && {
    const Config& config = builder.config();
    builder.add_problems(broken_run_rules(config, builder.places()));
    if (config.run.resume.empty())
      builder.add_problems(broken_rules(config, builder.places(), loaded_.given));
    loaded_.config = builder.finish();
    loaded_.places = builder.places();
    loaded_.source = sources_.empty() ? "the defaults" : join(sources_, " over ");
    return std::move(loaded_);
  }

  ConfigBuilder builder;

 private:
  void apply_named(const std::string& name) {
    apply_embedded(builder, name);
    sources_.push_back("the embedded " + name);
  }

  bool gives_batch() const {
    return loaded_.gives("train.batch_size") ||
           (loaded_.gives("train.accumulate") && builder.config().train.accumulate > 0);
  }

  const fs::path& folder_;
  Loaded loaded_;
  std::vector<std::string> sources_;
  std::string file_, task_;          // the config file; what --task says
  std::optional<std::string> text_;  // text of the config file, if it is known
  bool names_data_ = false;          // a flag names the data
  ConfigBatch embedded_batch_;
  bool embedded_rate_ = false;  // an embedded config sets the learning rate
};

// A folder is not data that can be trained on, whatever it holds.
void refuse_folder(ConfigBuilder& builder, const fs::path& folder) {
  const std::string& file = builder.config().data.file;
  std::error_code error;
  if (file.empty() || !fs::is_directory(folder / file, error)) return;
  std::vector<std::string> layouts;
  for (const catalog::DataSetEntry& set : catalog::data_sets()) {
    if (!set.folder.empty()) layouts.push_back(str(set.name, " (", set.folder, ")"));
  }
  builder.add_problem(
      builder.where("data.file"),
      str("data.file: ", in_quotes(file), " is a folder, and training reads one HDF5 file, which ",
          "`dtrain convert NAME ", file, "` makes. NAME is ", join(layouts, ", ")));
}

}  // namespace

bool Loaded::gives(std::string_view path) const { return std::ranges::count(given, path) > 0; }

Loaded load(const std::vector<std::string>& arguments, const fs::path& folder,
            const LoadOptions& options) {
  Config scratch;
  CommandLine line = split_command_line(arguments, describe(scratch), options.other_flags);
  Layers layers(folder);
  const catalog::DataSetEntry* dataset = nullptr;
  for (Flag& flag : line.flags) {
    if (flag.spelling == "--dataset" || flag.spelling == "--data")
      dataset = resolve_dataset(layers.builder, flag, folder);
  }
  layers.flags_name(line);
  layers.embedded_config(dataset);
  layers.file();
  layers.flags(line);
  layers.batch();
  if (options.check_dataset) refuse_folder(layers.builder, folder);
  Loaded loaded = std::move(layers).loaded();
  if (options.check_dataset && dataset != nullptr)
    require_data_set(*dataset, loaded.config.data.file);
  return loaded;
}

std::string file_of_data_set(std::string_view name) { return str("data/", name, ".h5"); }

void require_data_set(const catalog::DataSetEntry& set, const fs::path& file) {
  if (is_there(file)) return;
  const bool one_file = set.folder.empty();
  throw DataError(str(file.string(), " does not exist: make it with `dtrain convert ", set.name,
                      one_file ? " FILE.npz`" : " DIR`"));
}

bool names_key(std::string_view flag) {
  if (!flag.starts_with("--")) return false;
  Config scratch;
  return find_flag(describe(scratch), flag.substr(2, flag.find('=') - 2)) != nullptr;
}

Config from_yaml(std::string_view text, std::string_view name) {
  ConfigBuilder builder;
  const std::vector<std::string> given = apply_yaml(builder, text, std::string(name));
  builder.add_problems(broken_run_rules(builder.config(), builder.places()));
  builder.add_problems(broken_rules(builder.config(), builder.places(), given));
  return builder.finish();
}

SavedConfig saved_config(std::string_view text, std::string_view name) {
  Config before;
  before.optimizer.decay_norms_and_biases = true;  // how runs saved without the key were trained
  ConfigBuilder builder(/*saved=*/true, before);
  apply_yaml(builder, text, std::string(name));
  builder.add_problems(broken_rules(builder.config(), builder.places(), /*given=*/{}));
  SavedConfig saved{builder.finish(), ""};
  if (!builder.former_units().empty()) {
    saved.notice =
        str(name, " has former units of intervals: ", join(builder.former_units(), ", "));
  }
  return saved;
}

}  // namespace dtrain::config
