#include "tune/patch.h"

#include <filesystem>
#include <map>
#include <vector>

#include "config/print.h"
#include "config/table.h"
#include "core/printable.h"
#include "core/strings.h"
#include "tune/tune_report.h"

namespace dtrain::tune {
namespace {

// The values of all keys as text.
std::map<std::string, std::string> values_of(config::Config config) {
  std::map<std::string, std::string> values;
  for (const config::Option& option : config::describe(config))
    values[option.path] = config::value_text(option);
  return values;
}

std::vector<std::string> tuned_keys(const TuneResult& result) {
  std::vector<std::string> keys = {"train.batch_size",    "train.global_batch",  "train.amp",
                                   "model.channels_last", "model.checkpointing", "data.workers",
                                   "data.prefetch"};
  if (result.found.wire != result.given.wire) keys.emplace_back("dist.wire");
  if (result.range_test && result.range_test->suggestion) keys.emplace_back("optimizer.lr");
  return keys;
}

}  // namespace

config::Config tuned_config(const TuneResult& result) {
  config::Config config = result.config;
  apply(result.found, config);
  config.train.accumulate = 0;
  config.train.global_batch = result.found_global_batch();
  if (result.range_test && result.range_test->suggestion)
    config.optimizer.lr = result.range_test->suggestion->rate;
  return config;
}

std::string patch_text(const TuneResult& result, const config::Loaded& loaded,
                       const std::string& command) {
  config::Config tuned = tuned_config(result);
  tuned.run = loaded.config.run;
  const std::vector<std::string> changed = tuned_keys(result);
  std::vector<std::string> keys = changed;
  for (const auto& [path, place] : loaded.places) {
    if (path != "train.accumulate" && path != "device.preset") keys.push_back(path);
  }
  const std::map<std::string, std::string> before = values_of(result.config),
                                           after = values_of(tuned);
  std::map<std::string, std::string, std::less<>> comments;
  for (const std::string& path : changed) {
    comments[path] = before.at(path) == after.at(path) ? "tuned: as it was"
                                                       : str("tuned: was ", before.at(path));
  }
  comments["train.amp"] = before.at("train.amp") == "auto"
                              ? str("tuned: auto was ", result.given.amp)
                              : comments["train.amp"];
  if (before.at("data.workers") == "0")
    comments["data.workers"] = str("tuned: 0 was ", result.given.workers);
  comments["train.global_batch"] = tuned.train.global_batch == result.global_batch
                                       ? "as it was: other micro-batches accumulate to it"
                                       : str("was ", result.global_batch,
                                             result.range_test && result.range_test->suggestion
                                                 ? ": optimizer.lr was tested with it"
                                                 : ": optimizer.lr may have to change with it");
  const std::string gain = gain_text(result);
  return str("# Made by `", printable(command), "` for ", result.ranks,
             result.ranks == 1 ? " rank" : " ranks", " on ", result.device,
             gain.empty() ? "" : ": ", gain,
             ".\n# It is a whole config: `dtrain THIS_FILE` trains with it. Paths are relative to "
             "the current folder.\n\n",
             config::to_yaml(tuned, keys, comments));
}

std::string patch_file(const std::string& config_file) {
  return std::filesystem::path(config_file).stem().string() + ".tuned.yaml";
}

}  // namespace dtrain::tune
