#include "job/banner.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/print.h"
#include "job/version.h"
#include "text/strings.h"

namespace dtrain::job {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankResources, node, device, pci_bus_id, metrics, memory_bytes,
                                   local_rank, cores, threads, loader_threads);

namespace {

std::string absolute(const std::string& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

std::string to_json(const RankResources& resources) { return nlohmann::json(resources).dump(); }

RankResources resources_from_json(const std::string& text) {
  return nlohmann::json::parse(text).get<RankResources>();
}

std::string banner(const BannerFacts& f, const std::vector<RankResources>& ranks) {
  std::string text = version_text() + "\n";
  const auto line = [&](const std::string& name, const std::string& value) {
    text += "  " + name + std::string(name.size() < 11 ? 11 - name.size() : 1, ' ') + value + "\n";
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankResources& p = ranks[rank];
    line(str("rank ", rank),
         str(p.node, ", ", p.device, ", ", human_bytes(static_cast<double>(p.memory_bytes)), ", ",
             p.cores, p.cores == 1 ? " core, " : " cores, ", p.threads,
             p.threads == 1 ? " thread, " : " threads, ", p.loader_threads,
             p.loader_threads == 1 ? " reader" : " readers",
             p.metrics.empty() ? "" : ", metrics http://" + p.metrics + "/metrics"));
  }
  if (!ranks.front().metrics.empty()) line("live page", "http://" + ranks.front().metrics + "/");
  line("config", f.config_source);
  line("task", str(f.config.task, ", network ", f.config.model.name, ", ",
                   human_count(f.parameters), " parameters, ", f.precision));
  if (!f.precision_advice.empty()) line("precision", f.precision_advice);
  if (ranks.size() > 1) line("gradients", f.communicator);
  line("data",
       str(f.data_file, ": ", human_count(f.train), " training",
           f.config.data.share < 1 ? str(" (data.share ", f.config.data.share, "), ") : ", ",
           human_count(f.val), " validation, ", human_count(f.test), " test samples"));
  line("batch", describe(f.batches));
  line("decided by", f.batch_decided_by);
  if (!f.preset.empty()) line("preset", f.preset);
  if (!f.rate_advice.empty()) line("rate", f.rate_advice);
  if (f.config.train.overfit_batches > 0) {
    line("overfit", str("the same ", f.batches.steps_per_epoch,
                        f.batches.steps_per_epoch == 1 ? " global batch" : " global batches",
                        " again and again, without augmentation; validation is on them"));
  }
  line("steps", human_count(f.batches.total_steps));
  if (!f.resumed.empty()) line("resumed", f.resumed);
  line("run folder", f.run_folder.empty() ? "none (--dry-run)" : f.run_folder);
  if (f.launcher_pid != 0)
    line("stop", str("kill -USR1 ", f.launcher_pid,
                     " saves at the next step and leaves with exit code 75"));
  text.pop_back();
  return text;
}

std::string environment_json(const BannerFacts& f, const std::vector<RankResources>& ranks) {
  nlohmann::ordered_json json;
  json["versions"] = version_text();
  json["config_hash"] = config::hash(f.config);
  json["task"] = str(f.config.task);
  json["network"] = str(f.config.model.name);
  json["precision"] = f.precision;
  json["communicator"] = f.communicator;
  json["world_size"] = ranks.size();
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankResources& rank : ranks)
    json["ranks"].push_back(nlohmann::ordered_json::parse(to_json(rank)));
  json["data"] = f.data_file;
  json["absolute_paths"] = {{"data", absolute(f.data_file)},
                            {"module_file", absolute(f.config.model.file)}};
  json["parameters"] = f.parameters;
  json["global_batch"] = f.batches.global_batch;
  json["steps_per_epoch"] = f.batches.steps_per_epoch;
  json["total_steps"] = f.batches.total_steps;
  json["samples"] = {{"train", f.train}, {"val", f.val}, {"test", f.test}};
  json["metric"] = f.metric;
  json["metrics"] = nlohmann::ordered_json::array();
  for (const tasks::MetricSpec& metric : f.metrics) {
    json["metrics"].push_back({{"name", metric.name},
                               {"unit", metric.unit},
                               {"higher_is_better", metric.higher_is_better}});
  }
  json["resumed"] = f.resumed;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::job
