#include "job/trained_model.h"

#include <filesystem>
#include <optional>

#include "checkpoint/store.h"
#include "config/load.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "job/run_folder.h"
#include "models/load_weights.h"
#include "train/broadcast_snapshot.h"
#include "train/training_state.h"

namespace dtrain::job {
namespace {

// The metadata override the configuration: they say what the weights belong to.
config::Config config_of(const checkpoint::Snapshot& snapshot) {
  const config::SavedConfig saved =
      config::saved_config(train::from_json(snapshot.state_json).config_yaml, "the checkpoint's config");
  if (!saved.notice.empty()) log::info(saved.notice);
  config::Config config = saved.config;
  const config::Config named = tasks::config_of(snapshot.model_metadata);
  config.task = named.task;
  config.model.name = named.model.name;
  config.model.image_size = named.model.image_size;
  config.model.init.clear();  // the weights are the checkpoint's
  config.augment = named.augment;
  return config;
}

// The weights belong to the code in exactly that file. Checked before any of the code runs.
void check_module_file(const std::string& file, const checkpoint::Metadata& metadata) {
  const auto expected = metadata.find("module_sha256");
  if (expected == metadata.end()) return;
  if (!std::filesystem::is_regular_file(file)) {
    throw CheckpointError(
        str("the network is the TorchScript file ", file, ", which is not there: name it with --module"));
  }
  const std::string found = sha256_hex_of_file(file);
  if (found != expected->second) {
    throw CheckpointError(str(file, " is another file (SHA-256 ", found, ") than the one that was trained (",
                              expected->second, "): name that one with --module"));
  }
}

}  // namespace

void check_module_option(const std::string& module_file, const checkpoint::Metadata& metadata) {
  const auto network = metadata.find("network");
  if (module_file.empty() || network == metadata.end() || network->second == "torchscript") return;
  throw UsageError(str("--module names the TorchScript file of task module; ", network->second, " is dtrain's"));
}

TrainedModel load_model(dist::Communicator& host, const std::string& path, const Changes& changes) {
  TrainedModel loaded;
  std::optional<checkpoint::Snapshot> snapshot;
  dist::agree_on_rank0(host, [&] {
    loaded.checkpoint = find_checkpoint(path).string();
    snapshot = checkpoint::Store::load(loaded.checkpoint);
  });
  snapshot = train::broadcast_snapshot(host, snapshot);
  dist::agree(host, [&] {
    loaded.metadata = snapshot->model_metadata;
    loaded.config = config_of(*snapshot);
    check_module_option(changes.module_file, loaded.metadata);
    if (!changes.module_file.empty()) loaded.config.model.file = changes.module_file;
    loaded.config.device.type = changes.device.is_cuda() ? config::DeviceType::kCuda : config::DeviceType::kCpu;
    if (changes.on_bad_sample) loaded.config.data.on_bad_sample = *changes.on_bad_sample;
    check_module_file(loaded.config.model.file, loaded.metadata);
    loaded.task = tasks::make_task(loaded.config, tasks::facts_of(loaded.metadata));
    models::load_all(loaded.task->model(), snapshot->model);
    loaded.task->model().eval();
  });
  return loaded;
}

}  // namespace dtrain::job
