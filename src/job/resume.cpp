#include "job/resume.h"

#include <algorithm>

#include "config/differences.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "train/training_state.h"

namespace dtrain::job {

config::Config resolve(const config::Loaded& loaded, const std::optional<checkpoint::Snapshot>& snapshot) {
  if (!snapshot) return loaded.config;
  const train::TrainingState state = train::from_json(snapshot->state_json);
  const config::Config saved = config::from_yaml(state.config_yaml, "the checkpoint's config");
  config::Config merged = saved;
  config::copy_keys(loaded.config, merged, loaded.given);
  if (merged.train.global_batch == 0) merged.train.global_batch = state.global_batch;
  merged.run = loaded.config.run;
  if (std::count(loaded.given.begin(), loaded.given.end(), "train.accumulate") == 0) {
    merged.train.accumulate = 0;  // derived again for this world size
  }
  const std::vector<std::string> fixed = config::fixed_differences(saved, merged);
  if (!fixed.empty()) {
    throw ConfigError(str("a resumed run keeps ", join(fixed, ", "), ": leave them out, or start a new run"));
  }
  for (const std::string& difference : config::differences(saved, merged)) log::info("resumed with " + difference);
  return merged;
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
