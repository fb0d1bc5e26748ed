#include <algorithm>
#include <initializer_list>

#include "config/config.h"
#include "config/config_builder.h"
#include "core/strings.h"

namespace dtrain::config {
namespace {

// Where to fix it: the first of `paths` that a layer set.
std::string place(const ConfigBuilder& builder, std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths) {
    const std::string where = builder.where(path);
    if (!where.empty()) return where;
  }
  return "defaults";
}

}  // namespace

std::vector<Problem> broken_rules(const ConfigBuilder& builder) {
  const Config& c = builder.config();
  std::vector<Problem> broken;
  const auto must = [&](bool holds, std::initializer_list<std::string_view> paths, const std::string& what) {
    if (!holds) broken.push_back({place(builder, paths), what});
  };

  must(c.run.name.find('/') == std::string::npos && !c.run.name.starts_with('.') && c.run.name.size() <= 200,
       {"run.name"},
       str("run.name: ", in_quotes(c.run.name), " is not a folder name: no '/', no leading '.', at most 200 bytes"));
  must(c.run.name != "targets", {"run.name"},
       "run.name: 'targets' is the folder of the metrics addresses; use another name");
  must(!c.run.folder.empty(), {"run.folder"}, "run.folder: is empty; '.' is the current folder");
  must(c.run.resume != "auto" || !c.run.name.empty(), {"run.resume"},
       "run.resume: auto continues the run with a given name; set run.name (--name) too");
  const catalog::Task& task = catalog::row(c.task);
  std::vector<std::string> networks;
  for (const catalog::Network& network : task.networks) networks.emplace_back(network.name);
  must(std::ranges::count(networks, name_of(network_of(c))) > 0, {"model.name", "task.name"},
       str("model.name: task ", task.name, " trains ", join(networks, ", "), ", not ", c.model.name));
  must(!task.network_from_file || !c.model.file.empty(), {"task.name"},
       str("model.file: task ", task.name, " needs the TorchScript file of the network"));
  must(c.model.dropout >= 0 || c.model.dropout == -1, {"model.dropout"},
       str("model.dropout: ", c.model.dropout, " is neither a fraction in [0, 1) nor -1, the network's default"));
  must(!c.model.checkpointing || task.sample == catalog::Sample::kPicture, {"model.checkpointing", "task.name"},
       str("model.checkpointing: applies only to convolutional networks, and task ", task.name, " has none"));
  must(c.train.class_weights == "none" || task.class_weights, {"train.class_weights", "task.name"},
       str("train.class_weights: applies only to task classify; task ", task.name, " has no class weights"));
  must(c.train.label_smoothing == 0 || task.classes, {"train.label_smoothing", "task.name"},
       str("train.label_smoothing: applies only to classes, and task ", task.name, " has none"));
  must(!c.optimizer.nesterov || (c.optimizer.name == OptimizerName::kSgd && c.optimizer.momentum > 0),
       {"optimizer.nesterov", "optimizer.momentum", "optimizer.name"},
       str("optimizer.nesterov: needs optimizer.name sgd and optimizer.momentum above 0, not ", c.optimizer.name,
           " and ", c.optimizer.momentum));
  must(c.dist.first_bucket_mb <= c.dist.bucket_mb, {"dist.first_bucket_mb", "dist.bucket_mb"},
       str("dist.first_bucket_mb: ", c.dist.first_bucket_mb, " is more than dist.bucket_mb ", c.dist.bucket_mb));
  must(c.dist.backend != Backend::kNccl || c.device.type != DeviceType::kCpu, {"dist.backend", "device.type"},
       "dist.backend: nccl needs GPUs, but device.type is cpu");
  must(c.dist.backend != Backend::kMpi || c.device.type != DeviceType::kCuda, {"dist.backend", "device.type"},
       "dist.backend: mpi sends CPU tensors, but device.type is cuda; staged goes through the host");
  must(c.train.amp != AmpMode::kTf32 || c.device.type != DeviceType::kCpu, {"train.amp", "device.type"},
       "train.amp: tf32 needs a GPU, but device.type is cpu");
  must(c.train.global_batch == 0 || c.train.accumulate <= c.train.global_batch,
       {"train.accumulate", "train.global_batch"},
       str("train.accumulate: ", c.train.accumulate, " micro-steps are more than the ", c.train.global_batch,
           " samples of train.global_batch"));
  must(!c.metrics.bind.empty(), {"metrics.bind"}, "metrics.bind: is empty; 127.0.0.1 is this host only");
  return broken;
}

}  // namespace dtrain::config
