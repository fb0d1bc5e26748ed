#include "train/phases.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "models/freeze.h"

namespace dtrain::train {
namespace {

struct Trained {
  std::vector<dist::NamedParameter> parameters;
  size_t frozen = 0;  // by model.freeze
};

Trained enter_phase(tasks::Task& task, const std::string& phase, const std::string& freeze) {
  task.enter_phase(phase);
  Trained trained;
  if (!freeze.empty()) {
    std::vector<std::string> patterns;
    for (const std::string& pattern : split(freeze, ',')) patterns.emplace_back(trimmed(pattern));
    trained.frozen = models::freeze(task.model(), patterns).size();
  }
  for (const auto& parameter : task.model().named_parameters()) {
    if (parameter.value().requires_grad()) trained.parameters.push_back({parameter.key(), parameter.value()});
  }
  if (trained.parameters.empty()) {
    throw ConfigError(str("nothing is left to train in phase '", phase, "': model.freeze '", freeze,
                          "' names every parameter that it trains"));
  }
  return trained;
}

}  // namespace

std::vector<std::string> phases_of(const tasks::Task& task, int64_t epochs) {
  std::vector<std::string> names;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::string name = task.phase(epoch);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

void check_phases(tasks::Task& task, const config::Config& config) {
  for (const std::string& phase : phases_of(task, config.train.epochs)) enter_phase(task, phase, config.model.freeze);
}

Phases::Phases(tasks::Task& task, const config::Config& config, dist::Communicator& gradients, dist::Communicator& host)
    : task_(task), config_(config), gradients_(gradients), host_(host), names_(phases_of(task, config.train.epochs)) {}

std::vector<dist::NamedParameter> Phases::set_up(const std::string& phase) {
  Trained trained = enter_phase(task_, phase, config_.model.freeze);
  frozen_ = trained.frozen;
  if (!optimizers_.contains(phase)) {
    optimizers_[phase] = std::make_unique<Optimizer>(config_.optimizer, trained.parameters,
                                                     [&](const std::string& name) { return task_.lr_ratio(name); });
  }
  return std::move(trained.parameters);
}

void Phases::enter(int64_t epoch) {
  const std::string next = task_.phase(epoch);
  if (next == name_) return;
  const bool first_time = entered_.insert(next).second;
  reducer_.reset();
  for (const at::Tensor& parameter : task_.model().parameters()) parameter.mutable_grad() = at::Tensor();
  std::vector<dist::NamedParameter> parameters = set_up(next);
  if (host_.rank() == 0) {
    log::info(str("phase ", next, " from epoch ", epoch + 1, ": ", parameters.size(), " of ",
                  task_.model().parameters().size(), " tensors are trained",
                  frozen_ > 0 ? str(", ", frozen_, " are frozen by model.freeze") : ""));
  }
  reducer_ = std::make_unique<dist::GradientReducer>(
      std::move(parameters), gradients_, host_,
      dist::GradientReducer::Options{.cap_bytes = static_cast<int64_t>(config_.dist.bucket_mb * (1 << 20)),
                                     .first_bytes = static_cast<int64_t>(config_.dist.first_bucket_mb * (1 << 20)),
                                     .name_unused = first_time});
  name_ = next;
}

checkpoint::NamedTensors Phases::state() const {
  checkpoint::NamedTensors all;
  for (const std::string& phase : names_) {
    const auto optimizer = optimizers_.find(phase);
    if (optimizer == optimizers_.end()) continue;
    for (auto& [name, tensor] : optimizer->second->state()) {
      all.emplace_back(names_.size() > 1 ? phase + "/" + name : name, std::move(tensor));
    }
  }
  return all;
}

void Phases::load(const checkpoint::NamedTensors& saved) {
  std::map<std::string, checkpoint::NamedTensors> by_phase;
  if (names_.size() == 1) by_phase[names_[0]];  // nothing saved does not fit an optimizer with moments
  for (const auto& [name, tensor] : saved) {
    const size_t slash = name.find('/');
    // Saved when the run had one phase: it was the first.
    const std::string phase = slash == std::string::npos ? names_.at(0) : name.substr(0, slash);
    by_phase[phase].emplace_back(slash == std::string::npos ? name : name.substr(slash + 1), tensor);
  }
  for (const auto& [phase, tensors] : by_phase) {
    if (std::find(names_.begin(), names_.end(), phase) == names_.end()) continue;  // of epochs beyond this run
    if (phase != name_) {
      set_up(phase);
      name_.clear();  // what requires gradients is no longer what the reducer was made for
    }
    optimizers_.at(phase)->load(tensors);
  }
}

}  // namespace dtrain::train
