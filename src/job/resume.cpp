#include "job/resume.h"

#include "config/differences.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "job/batch_choice.h"
#include "train/training_state.h"

namespace dtrain::job {

namespace {

config::Config merged(const config::Loaded& loaded, const checkpoint::Snapshot& snapshot) {
  const train::TrainingState state = train::from_json(snapshot.state_json);
  const config::SavedConfig saved = config::saved_config(state.config_yaml, "the checkpoint's config");
  if (!saved.notice.empty()) log::info(saved.notice);
  config::Config merged = saved.config;
  config::copy_keys(loaded.config, merged, loaded.given);
  if (merged.train.global_batch == 0) merged.train.global_batch = state.global_batch;
  merged.run = loaded.config.run;
  if (!loaded.gives("train.accumulate")) merged.train.accumulate = 0;  // derived again for this world size
  const std::vector<std::string> fixed = config::fixed_differences(saved.config, merged);
  if (!fixed.empty()) {
    throw ConfigError(str("a resumed run keeps ", join(fixed, ", "), ": leave ", fixed.size() == 1 ? "it" : "them",
                          " out, or start a new run"));
  }
  for (const std::string& difference : config::differences(saved.config, merged)) {
    if (!difference.starts_with("train.accumulate:")) log::info("resumed with " + difference);
  }
  return merged;
}

}  // namespace

Resolved resolve(const config::Loaded& loaded, const std::optional<checkpoint::Snapshot>& snapshot, int64_t ranks) {
  Resolved resolved{snapshot ? merged(loaded, *snapshot) : loaded.config, ""};
  const BatchChoice choice = choose_batch(resolved.config.train, loaded, ranks, snapshot.has_value());
  resolved.config.train = choice.train;
  resolved.batch_decided_by = choice.decided_by;
  if (!choice.notice.empty()) log::info(choice.notice);
  if (!loaded.config.run.resume.empty()) {
    config::Places places;  // an embedded config takes no part in a resume
    for (const std::string& key : loaded.given) {
      if (const auto place = loaded.places.find(key); place != loaded.places.end()) places.insert(*place);
    }
    config::throw_problems(config::broken_rules(resolved.config, places, loaded.given));
  }
  return resolved;
}

void check_same_data(const checkpoint::Snapshot& snapshot, const data::Store& store, const data::Splits& splits) {
  const train::TrainingState saved = train::from_json(snapshot.state_json);
  const std::string& file = store.path().string();
  if (saved.data_checksum != store.schema().checksum) {
    throw ConfigError(
        str("a resumed run keeps its data: ", file, " has another checksum than the data of the checkpoint"));
  }
  if (saved.splits_checksum != data::checksum(splits)) {
    throw ConfigError(str("a resumed run keeps its data: ", file,
                          " has the samples of the checkpoint's data, divided otherwise into training, validation and "
                          "test: start a new run"));
  }
}

}  // namespace dtrain::job
