#include "config/rules.h"

#include <algorithm>
#include <initializer_list>

#include "catalog/gpus.h"
#include "config/keys.h"
#include "config/plain_text.h"
#include "core/error.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

// Collects what does not hold, with the place to fix it.
class Rules {
 public:
  explicit Rules(const Places& places) : places_(places) {}

  // `paths`: the keys that take part. The place is that of the first one that was set.
  void must(bool holds, std::initializer_list<std::string_view> paths, const std::string& what) {
    if (!holds) broken.push_back({place(paths), what});
  }

  std::vector<Problem> broken;

 private:
  std::string place(std::initializer_list<std::string_view> paths) const {
    for (const std::string_view path : paths) {
      if (const auto found = places_.find(path); found != places_.end()) return found->second;
    }
    return "defaults";
  }

  const Places& places_;
};

// What the user gave and what the run does not use. (A key whose value is wrong has no place; that
// is reported alone.)
void only_keys_in_scope(Rules& rules, const Config& config, const Places& places,
                        const std::vector<std::string>& given) {
  Config scratch;
  for (const Option& option : describe(scratch)) {
    const bool is_set = std::ranges::count(given, option.path) > 0 && places.contains(option.path);
    rules.must(
        !is_set || option.scope.holds(config), {option.path},
        str(option.path, ": does nothing for task ", config.task, " with network ",
            name_of(network_of(config)), "; it is for ", option.scope.text, ": leave it out"));
  }
}

std::string wrong_preset(const std::string& name) {
  if (name.empty() || name == "auto") return "";
  if (const catalog::Gpu* gpu = catalog::gpu_named(name)) {
    return gpu->is_supported() ? "" : catalog::unsupported_gpu(*gpu);
  }
  std::vector<std::string> known = catalog::gpu_names();
  known.insert(known.begin(), "auto");
  const std::string near = name.size() > 64 ? "" : nearest(name, known);
  return str(in_quotes(name), " is not one of ", join(known, ", "),
             near.empty() ? "" : str("; did you mean '", near, "'?"));
}

// Most texts begin with their key, and a flag may be that key.
std::string line_of(const Problem& problem) {
  const bool names_key =
      problem.where.starts_with("--") && problem.what.starts_with(problem.where.substr(2) + ": ");
  return names_key ? "--" + problem.what : problem.where + ": " + problem.what;
}

}  // namespace

std::vector<Problem> broken_run_rules(const Config& c, const Places& places) {
  Rules rules(places);
  rules.must(c.run.name.find('/') == std::string::npos && !c.run.name.starts_with('.') &&
                 c.run.name.size() <= 200,
             {"run.name"},
             str("run.name: ", in_quotes(c.run.name),
                 " is not a folder name: no '/', no leading '.', at most 200 bytes"));
  rules.must(c.run.name != "targets", {"run.name"},
             "run.name: 'targets' is the folder of the metrics addresses; use another name");
  rules.must(!c.run.folder.empty(), {"run.folder"},
             "run.folder: is empty; '.' is the current folder");
  rules.must(c.run.resume != "auto" || !c.run.name.empty(), {"run.resume"},
             "run.resume: auto continues the run with a given name; set run.name (--name) too");
  return rules.broken;
}

std::vector<Problem> broken_rules(const Config& c, const Places& places,
                                  const std::vector<std::string>& given) {
  Rules rules(places);
  const catalog::TaskEntry& task = catalog::row(c.task);
  std::vector<std::string> networks;
  for (const catalog::NetworkEntry& network : task.networks) networks.emplace_back(network.name);
  rules.must(std::ranges::count(networks, name_of(network_of(c))) > 0, {"model.name", "task.name"},
             str("model.name: task ", task.name, " trains ", join(networks, ", "), ", not ",
                 c.model.name));
  rules.must(!task.network_from_file() || !c.model.file.empty(), {"task.name"},
             str("model.file: task ", task.name, " needs the TorchScript file of the network"));
  rules.must(c.model.dropout >= 0 || c.model.dropout == -1, {"model.dropout"},
             str("model.dropout: ", c.model.dropout,
                 " is neither a fraction in [0, 1) nor -1, the network's default"));
  rules.must(
      !c.optimizer.nesterov ||
          (c.optimizer.name == OptimizerName::kSgd && c.optimizer.momentum > 0),
      {"optimizer.nesterov", "optimizer.momentum", "optimizer.name"},
      str("optimizer.nesterov: needs optimizer.name sgd and optimizer.momentum above 0, not ",
          c.optimizer.name, " and ", c.optimizer.momentum));
  rules.must(c.dist.bucket_mb == 0 || c.dist.first_bucket_mb <= c.dist.bucket_mb,
             {"dist.first_bucket_mb", "dist.bucket_mb"},
             str("dist.first_bucket_mb: ", c.dist.first_bucket_mb, " is more than dist.bucket_mb ",
                 c.dist.bucket_mb));
  rules.must(c.dist.backend != Backend::kNccl || c.device.type != DeviceType::kCpu,
             {"dist.backend", "device.type"},
             "dist.backend: nccl needs GPUs, but device.type is cpu");
  for (const Backend backend : {Backend::kSharedMemory, Backend::kHierarchical, Backend::kMpi}) {
    rules.must(c.dist.backend != backend || c.device.type != DeviceType::kCuda,
               {"dist.backend", "device.type"},
               str("dist.backend: ", backend,
                   " reduces CPU tensors, but device.type is cuda; staged goes through the host"));
  }
  rules.must(c.train.amp != AmpMode::kTf32 || c.device.type != DeviceType::kCpu,
             {"train.amp", "device.type"}, "train.amp: tf32 needs a GPU, but device.type is cpu");
  rules.must(c.train.global_batch == 0 || c.train.accumulate <= c.train.global_batch,
             {"train.accumulate", "train.global_batch"},
             str("train.accumulate: ", c.train.accumulate, " micro-steps are more than the ",
                 c.train.global_batch, " samples of train.global_batch"));
  if (const std::string wrong = wrong_preset(c.device.preset); !wrong.empty()) {
    rules.must(false, {"device.preset"}, "device.preset: " + wrong);
  }
  only_keys_in_scope(rules, c, places, given);
  rules.must(!c.metrics.bind.empty(), {"metrics.bind"},
             "metrics.bind: is empty; 127.0.0.1 is this host only");
  return rules.broken;
}

void throw_problems(const std::vector<Problem>& problems) {
  if (problems.empty()) return;
  constexpr size_t kShown = 50;
  std::vector<std::string> lines;
  for (const Problem& problem : problems) {
    if (lines.size() < kShown) lines.push_back(line_of(problem));
  }
  if (problems.size() == 1) throw ConfigError(lines[0]);
  if (problems.size() > kShown) lines.push_back(str("and ", problems.size() - kShown, " more"));
  throw ConfigError(
      str(problems.size(), " problems in the configuration:\n  ", join(lines, "\n  ")));
}

}  // namespace dtrain::config
