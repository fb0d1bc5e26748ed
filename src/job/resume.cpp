#include "job/resume.h"

#include "config/differences.h"
#include "core/error.h"
#include "core/log.h"
#include "job/batch_choice.h"
#include "models/load_weights.h"
#include "text/printable.h"
#include "text/strings.h"
#include "train/training_state.h"

namespace dtrain::job {

config::SavedConfig saved_config(const checkpoint::Snapshot& snapshot) {
  return config::saved_config(train::from_json(snapshot.state_json).config_yaml,
                              "the checkpoint's config");
}

namespace {

// For a message: class names as a list, which may be long.
std::string shown(const std::map<std::string, std::string>& meaning, const std::string& name) {
  constexpr size_t kMost = 20;
  const auto found = meaning.find(name);
  if (found == meaning.end()) return "none";
  return printable(join_first(split(found->second, '\n'), kMost));
}

void check_same_meaning(const train::TrainingState& saved, const data::Store& store) {
  if (!saved.data_meaning) {
    log::info(
        str("the checkpoint does not say the class names and units of its data, so they are not "
            "compared with ",
            store.origin().path().string(), ": an older dtrain saved it"));
    return;
  }
  const std::map<std::string, std::string> now = data::meaning_of(store.origin());
  for (const char* name : {"class_names", "target_names", "target_unit"}) {
    const auto before = saved.data_meaning->find(name), after = now.find(name);
    const bool had = before != saved.data_meaning->end(), has = after != now.end();
    if (had == has && (!had || before->second == after->second)) continue;
    throw ConfigError(str("a resumed run keeps its data: `", name, "` of ",
                          store.origin().path().string(), " is ", shown(now, name), ", and was ",
                          shown(*saved.data_meaning, name),
                          " when the checkpoint was saved: start a new run"));
  }
}

config::Config merged(const config::Loaded& loaded, const checkpoint::Snapshot& snapshot) {
  const train::TrainingState state = train::from_json(snapshot.state_json);
  const config::SavedConfig saved = saved_config(snapshot);
  if (!saved.notice.empty()) log::info(saved.notice);
  config::Config merged = saved.config;
  config::copy_keys(loaded.config, merged, loaded.given);
  if (merged.train.global_batch == 0) merged.train.global_batch = state.global_batch;
  // Name, folder and progress are those of this start.
  const config::Interval log_every = merged.run.log_every;
  merged.run = loaded.config.run;
  merged.run.log_every = log_every;
  if (!loaded.gives("train.accumulate"))
    merged.train.accumulate = 0;  // derived again for this world size
  const std::vector<std::string> fixed = config::fixed_differences(saved.config, merged);
  if (!fixed.empty()) {
    throw ConfigError(str("a resumed run keeps ", join(fixed, ", "), ": leave ",
                          fixed.size() == 1 ? "it" : "them", " out, or start a new run"));
  }
  for (const std::string& difference : config::differences(saved.config, merged)) {
    const bool of_this_start =
        difference.starts_with("run.") && !difference.starts_with("run.log_every:");
    if (!of_this_start && !difference.starts_with("train.accumulate:"))
      log::info("resumed with " + difference);
  }
  return merged;
}

}  // namespace

Resolved resolve(const config::Loaded& loaded, const std::optional<checkpoint::Snapshot>& snapshot,
                 int64_t ranks) {
  Resolved resolved{snapshot ? merged(loaded, *snapshot) : loaded.config, ""};
  const BatchChoice choice =
      choose_batch(resolved.config.train, loaded, ranks, snapshot.has_value());
  resolved.config.train = choice.train;
  resolved.batch_decided_by = choice.decided_by;
  if (!choice.notice.empty()) log::info(choice.notice);
  if (!loaded.config.run.resume.empty()) {
    config::Places places;  // an embedded config takes no part in a resume
    for (const std::string& key : loaded.given) {
      if (const auto place = loaded.places.find(key); place != loaded.places.end())
        places.insert(*place);
    }
    config::throw_problems(config::broken_rules(resolved.config, places, loaded.given));
  }
  return resolved;
}

void check_same_data(const checkpoint::Snapshot& snapshot, const data::Store& store,
                     const data::Splits& splits) {
  const train::TrainingState saved = train::from_json(snapshot.state_json);
  const std::string& file = store.origin().path().string();
  if (saved.data_checksum != store.schema().checksum) {
    throw ConfigError(str("a resumed run keeps its data: ", file,
                          " has another checksum than the data of the checkpoint"));
  }
  if (saved.splits_checksum != data::checksum(splits)) {
    throw ConfigError(str("a resumed run keeps its data: ", file,
                          " has the samples of the checkpoint's data, divided otherwise into "
                          "training, validation and test: start a new run"));
  }
  check_same_meaning(saved, store);
  if (is_other_file(snapshot, store)) {
    log::info(str(file,
                  " was written after the checkpoint was saved, or is a copy. Its checksums are "
                  "those of the ",
                  "checkpoint's data; data.verify says which samples are compared with them"));
  }
}

bool is_other_file(const checkpoint::Snapshot& snapshot, const data::Store& store) {
  const int64_t saved = train::from_json(snapshot.state_json).data_modified_ns;
  return saved != 0 && saved != store.origin().modified_ns();
}

void check_finite(const checkpoint::Snapshot& snapshot, const std::filesystem::path& checkpoint,
                  const torch::nn::Module& module) {
  models::check_finite(module, snapshot.model, checkpoint / "model.safetensors");
  models::check_finite(module, snapshot.optimizer, checkpoint / "optimizer.safetensors");
  for (size_t rank = 0; rank < snapshot.ranks.size(); ++rank) {
    models::check_finite(module, snapshot.ranks[rank],
                         checkpoint / str("rank_", rank, ".safetensors"), "local.");
  }
}

}  // namespace dtrain::job
