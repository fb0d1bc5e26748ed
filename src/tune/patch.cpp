#include "tune/patch.h"

#include <filesystem>
#include <map>
#include <vector>

#include "config/keys.h"
#include "config/print.h"
#include "text/printable.h"
#include "text/strings.h"
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

bool suggests_rate(const TuneState& found) {
  return found.range_test && found.range_test->suggestion;
}

}  // namespace

config::Config tuned_config(const TuneResult& result) {
  config::Config config = result.run.config();
  apply(result.found.settings, config);
  config.train.accumulate = 0;
  config.train.global_batch = result.found_global_batch();
  if (suggests_rate(result.found)) config.optimizer.lr = result.found.range_test->suggestion->rate;
  return config;
}

std::string patch_text(const TuneResult& result, const config::Loaded& loaded,
                       const std::string& command) {
  const TuneState& found = result.found;
  const TunedSettings& given = result.run.given;
  config::Config tuned = tuned_config(result);
  tuned.run = loaded.config.run;
  const std::map<std::string, std::string> before = values_of(result.run.config()),
                                           after = values_of(tuned);
  const auto comment = [&](const std::string& path) {
    const bool same = before.at(path) == after.at(path);
    return str("tuned: ", same ? "as it was" : "was " + before.at(path));
  };
  std::map<std::string, std::string, std::less<>> comments;
  for (const TunedKey& key : tuned_keys()) {
    // The wire is mostly not tried.
    if (key.group == KeyGroup::kWire && !key.differs(found.settings, given)) continue;
    const bool chose = *key.automatic != '\0' && before.at(key.path) == key.automatic;
    comments[key.path] =
        chose ? str("tuned: ", key.automatic, " was ", key.value(given)) : comment(key.path);
  }
  const int64_t global_batch = result.run.batches.global_batch;
  comments["train.global_batch"] =
      tuned.train.global_batch == global_batch
          ? "as it was: other micro-batches accumulate to it"
          : str("was ", global_batch,
                suggests_rate(found) ? ": optimizer.lr was tested with it"
                                     : ": optimizer.lr may have to change with it");
  if (suggests_rate(found)) comments["optimizer.lr"] = comment("optimizer.lr");
  std::vector<std::string> keys;
  for (const auto& [path, comment] : comments) keys.push_back(path);
  for (const auto& [path, place] : loaded.places) {
    if (path != "train.accumulate" && path != "device.preset") keys.push_back(path);
  }
  const std::string gain = gain_text(result);
  const int ranks = result.run.batches.ranks;
  return str("# Made by `", printable(command), "` for ", ranks, ranks == 1 ? " rank" : " ranks",
             " on ", result.run.device, gain.empty() ? "" : ": ", gain,
             ".\n# It is a whole config: `dtrain THIS_FILE` trains with it. Paths are relative to "
             "the current folder.\n\n",
             config::to_yaml(tuned, keys, comments));
}

std::string patch_file(const std::string& config_file) {
  return std::filesystem::path(config_file).stem().string() + ".tuned.yaml";
}

}  // namespace dtrain::tune
