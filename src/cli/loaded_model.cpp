#include "cli/loaded_model.h"

#include <optional>

#include "checkpoint/store.h"
#include "cli/run_folder.h"
#include "config/load.h"
#include "core/error.h"
#include "core/strings.h"
#include "dist/bytes.h"
#include "models/state.h"
#include "train/content_transfer.h"
#include "train/training_state.h"

namespace dtrain::cli {
namespace {

const std::string& required(const checkpoint::Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw CheckpointError(str("model.safetensors does not say its '", key, "'"));
  return found->second;
}

// The metadata have the last word: they say what the weights belong to.
config::Config config_of(const checkpoint::Content& content) {
  config::Config config =
      config::from_yaml(train::from_json(content.state_json).config_yaml, "the checkpoint's config");
  config.task = required(content.model_metadata, "task");
  config.model.name = required(content.model_metadata, "network");
  if (const auto size = content.model_metadata.find("image_size"); size != content.model_metadata.end()) {
    config.model.image_size = std::stoll(size->second);
  }
  config.model.init.clear();  // the weights are the checkpoint's
  return config;
}

}  // namespace

LoadedModel load_model(dist::Communicator& host, const std::string& path) {
  LoadedModel loaded;
  std::optional<checkpoint::Content> content;
  dist::agree_on_rank0(host, [&] {
    loaded.checkpoint = find_checkpoint(path).string();
    content = checkpoint::Store::load(loaded.checkpoint);
  });
  content = train::broadcast_content(host, content);
  dist::agree(host, [&] {
    loaded.metadata = content->model_metadata;
    loaded.config = config_of(*content);
    loaded.task = tasks::make_task(loaded.config);
    models::load_all(loaded.task->model(), content->model);
    loaded.task->model().eval();
  });
  return loaded;
}

}  // namespace dtrain::cli
