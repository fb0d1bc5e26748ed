#include "job/trained_model.h"

#include <filesystem>
#include <system_error>

#include "checkpoint/store.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "job/resume.h"
#include "models/load_weights.h"
#include "text/strings.h"
#include "train/broadcast_snapshot.h"
#include "train/training_state.h"

namespace dtrain::job {
namespace {

// The metadata override the configuration: they say what the weights belong to.
config::Config config_of(const checkpoint::Snapshot& snapshot) {
  const config::SavedConfig saved = saved_config(snapshot);
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

bool is_file(const std::string& path) {
  std::error_code unknown;  // such as a folder that may not be entered
  return std::filesystem::is_regular_file(path, unknown);
}

// False for a file that cannot be read, too.
bool has_sha256(const std::string& file, const std::string& sha256) {
  try {
    return is_file(file) && sha256_hex_of_file(file) == sha256;
  } catch (const Error&) {
    return false;
  }
}

// The weights belong to the code in exactly that file. Checked before any of the code runs.
void check_module_file(const std::string& file, const std::string& sha256) {
  if (!is_file(file)) {
    throw CheckpointError(str("the network is the TorchScript file ", file,
                              ", which is not there: name it with --module"));
  }
  const std::string found = sha256_hex_of_file(file);
  if (found != sha256) {
    throw CheckpointError(str(file, " is another file (SHA-256 ", found,
                              ") than the one that was trained (", sha256,
                              "): name that one with --module"));
  }
}

// The TorchScript file of the network: the one that is given, or the one that the run names,
// wherever it is now.
std::string module_file(const std::string& given, const TrainedModel& model) {
  const std::string& named = model.config.model.file;
  const auto expected = model.metadata.find("module_sha256");
  if (expected == model.metadata.end()) return given.empty() ? named : given;
  if (given.empty()) {
    for (const std::string& place : places_of(named, model.paths, model.paths.module_file)) {
      if (!has_sha256(place, expected->second)) continue;
      if (place != named) log::info(str("the TorchScript file of the run is ", place));
      return place;
    }
  }
  check_module_file(given.empty() ? named : given, expected->second);
  return given;
}

checkpoint::Snapshot read_checkpoint(const CheckpointName& name, TrainedModel& loaded) {
  const FoundCheckpoint found = find_checkpoint(name);
  loaded.checkpoint = found.folder.string();
  loaded.chosen = found.chosen;
  checkpoint::Snapshot snapshot = checkpoint::CheckpointStore::load(found.folder);
  loaded.paths = run_paths_of(found.folder, saved_config(snapshot).config.run.folder);
  return snapshot;
}

// The task with the weights of the snapshot.
void make_model(TrainedModel& loaded, const checkpoint::Snapshot& snapshot,
                const Changes& changes) {
  loaded.metadata = snapshot.model_metadata;
  loaded.config = config_of(snapshot);
  loaded.data_checksum = train::from_json(snapshot.state_json).data_checksum;
  check_module_option(changes.module_file, loaded.metadata);
  if (!changes.looks_for_code && changes.module_file.empty() &&
      catalog::row(loaded.config.task).network_from_file()) {
    throw CheckpointError(
        "the network is a TorchScript file, which is code: name the file with --module to run it");
  }
  loaded.config.model.file = module_file(changes.module_file, loaded);
  loaded.config.device.type =
      changes.device.is_cuda() ? config::DeviceType::kCuda : config::DeviceType::kCpu;
  if (changes.on_bad_sample) loaded.config.data.on_bad_sample = *changes.on_bad_sample;
  loaded.task = tasks::make_task(loaded.config, tasks::facts_of(loaded.metadata));
  if (!loaded.checkpoint.empty()) {  // rank 0
    const std::filesystem::path file =
        std::filesystem::path(loaded.checkpoint) / "model.safetensors";
    models::check_finite(loaded.task->model(), snapshot.model, file);
  }
  models::load_all(loaded.task->model(), snapshot.model);
  loaded.task->model().eval();
}

}  // namespace

void check_module_option(const std::string& module_file, const checkpoint::Metadata& metadata) {
  const auto network = metadata.find("network");
  if (module_file.empty() || network == metadata.end() || catalog::is_from_file(network->second))
    return;
  throw UsageError(
      str("--module names the TorchScript file of task module; ", network->second, " is dtrain's"));
}

TrainedModel load_model(dist::Communicator& host, const CheckpointName& name,
                        const Changes& changes) {
  TrainedModel loaded;
  std::optional<checkpoint::Snapshot> snapshot;
  dist::agree_on_rank0(host, [&] { snapshot = read_checkpoint(name, loaded); });
  snapshot = train::broadcast_snapshot(host, snapshot);
  loaded.paths = run_paths_from(dist::broadcast_object(host, to_text(loaded.paths)));
  dist::agree(host, [&] { make_model(loaded, *snapshot, changes); });
  return loaded;
}

TrainedModel load_model_alone(const CheckpointName& name, const Changes& changes) {
  TrainedModel loaded;
  const checkpoint::Snapshot snapshot = read_checkpoint(name, loaded);
  make_model(loaded, snapshot, changes);
  return loaded;
}

DataSet open_data(data::ProbeProcess& prober, const TrainedModel& model, const std::string& file) {
  if (!file.empty()) return open_data(prober, file, model.config);
  const std::vector<std::string> places =
      places_of(model.config.data.file, model.paths, model.paths.data);
  return open_data_of_run(prober, places, model.data_checksum, model.config);
}

}  // namespace dtrain::job
