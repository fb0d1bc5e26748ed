#include "train/phases.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "dist/bucket_transfer.h"
#include "models/freeze.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

struct Trained {
  std::vector<dist::NamedParameter> parameters;
  size_t frozen = 0;  // parameters frozen by model.freeze
};

Trained enter_phase(tasks::Task& task, const tasks::TrainingPhase& phase,
                    const std::string& freeze) {
  task.enter(phase);
  Trained trained;
  if (!freeze.empty()) {
    std::vector<std::string> patterns;
    for (const std::string& pattern : split(freeze, ',')) patterns.emplace_back(trimmed(pattern));
    trained.frozen = models::freeze(task.model(), patterns).size();
  }
  for (const auto& parameter : task.model().named_parameters()) {
    if (parameter.value().requires_grad())
      trained.parameters.push_back({parameter.key(), parameter.value()});
  }
  if (trained.parameters.empty()) {
    throw ConfigError(str("nothing is left to train in phase '", phase.name, "': model.freeze '",
                          freeze, "' names every parameter that it trains"));
  }
  return trained;
}

std::string buckets_text(const dist::GradientReducer& reducer,
                         const dist::GradientReducer::Options& options) {
  const size_t buckets = reducer.bucket_bytes().size();
  return str("gradients: ", human_bytes(static_cast<double>(reducer.bytes_per_step())),
             " per step, in ", buckets == 1 ? "one bucket" : str(buckets, " buckets"),
             " of at most ", human_bytes(static_cast<double>(options.cap_bytes)), ", the first ",
             human_bytes(static_cast<double>(options.first_bytes)));
}

std::vector<RunPhase>::iterator find(std::vector<RunPhase>& phases, const std::string& name) {
  return std::ranges::find(
      phases, name, [](const RunPhase& one) -> const std::string& { return one.phase.name; });
}

}  // namespace

std::vector<RunPhase> phases_of(const tasks::Task& task, int64_t epochs) {
  std::vector<RunPhase> phases;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    tasks::TrainingPhase phase = task.phase(epoch);
    auto found = find(phases, phase.name);
    if (found == phases.end()) found = phases.insert(found, {std::move(phase), epoch});
    ++found->epochs;
  }
  return phases;
}

void check_phases(tasks::Task& task, const config::Config& config) {
  for (const RunPhase& one : phases_of(task, config.train.epochs))
    enter_phase(task, one.phase, config.model.freeze);
}

Phases::Phases(tasks::Task& task, const config::Config& config, dist::Communicator& gradients,
               dist::Communicator& host, trace::Recorder* recorder)
    : task_(task),
      config_(config),
      gradients_(gradients),
      host_(host),
      phases_(phases_of(task, config.train.epochs)),
      buckets_(recorder ? recorder->track(trace::kBuckets, 0) : nullptr) {}

void Phases::make_optimizer(const tasks::TrainingPhase& phase,
                            const std::vector<dist::NamedParameter>& parameters) {
  auto& optimizer = optimizers_[phase.name];
  if (!optimizer)
    optimizer = std::make_unique<Optimizer>(config_.optimizer, parameters, phase.lr_ratio);
}

dist::GradientReducer::Options Phases::buckets_for(
    const std::vector<dist::NamedParameter>& parameters) const {
  const config::Dist& dist = config_.dist;
  const auto bytes_of = [](double mebibytes) {
    return static_cast<int64_t>(mebibytes * (1 << 20));
  };
  dist::GradientReducer::Options options{.cap_bytes = bytes_of(dist.bucket_mb),
                                         .first_bytes = bytes_of(dist.first_bucket_mb),
                                         .wire = dist::wire_dtype(dist.wire),
                                         .track = buckets_};
  if (dist.bucket_mb == 0) {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : parameters) {
      bytes += tensor.numel() *
               dist::wire_item_bytes(tensor.scalar_type(), options.wire, gradients_.size());
    }
    // The bits of the norm depend on the buckets, and NCCL's sums too: runs with measured sizes
    // would differ.
    const bool repeats = config_.train.deterministic || parameters[0].tensor.is_cpu();
    options.cap_bytes =
        dist::best_bucket_bytes(repeats ? dist::CostFit{} : all_reduce_cost_, bytes);
    options.first_bytes = std::min(options.first_bytes, options.cap_bytes);
  }
  return options;
}

bool Phases::enter(int64_t epoch) {
  tasks::TrainingPhase next = task_.phase(epoch);
  if (current_ && next.name == current_->name) return false;
  const bool first_time = entered_.insert(next.name).second;
  reducer_.reset();
  for (const at::Tensor& parameter : task_.model().parameters())
    parameter.mutable_grad() = at::Tensor();
  const Trained trained = enter_phase(task_, next, config_.model.freeze);
  if (host_.rank() == 0) {
    log::info(
        str("phase ", next.name, " from epoch ", epoch + 1, ": ", trained.parameters.size(), " of ",
            task_.model().parameters().size(), " tensors are trained",
            trained.frozen > 0 ? str(", ", trained.frozen, " are frozen by model.freeze") : ""));
  }
  // First what waits for the other ranks, then the moments, which may find no memory on one
  // of them.
  dist::GradientReducer::Options options = buckets_for(trained.parameters);
  options.name_unused = first_time;
  reducer_ =
      std::make_unique<dist::GradientReducer>(trained.parameters, gradients_, host_, options);
  if (first_time && host_.rank() == 0 && gradients_.size() > 1)
    log::info(buckets_text(*reducer_, options));
  make_optimizer(next, trained.parameters);
  current_ = std::move(next);
  return true;
}

int64_t Phases::moment_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, optimizer] : optimizers_) bytes += optimizer->bytes();
  return bytes;
}

checkpoint::NamedTensors Phases::state() const {
  checkpoint::NamedTensors all;
  for (const RunPhase& one : phases_) {
    const std::string& phase = one.phase.name;
    const auto optimizer = optimizers_.find(phase);
    if (optimizer == optimizers_.end()) continue;
    for (auto& [name, tensor] : optimizer->second->state()) {
      all.emplace_back(phases_.size() > 1 ? phase + "/" + name : name, std::move(tensor));
    }
  }
  return all;
}

void Phases::load(const checkpoint::NamedTensors& saved) {
  std::map<std::string, checkpoint::NamedTensors> by_phase;
  if (phases_.size() == 1)
    by_phase[phases_[0].phase.name];  // nothing saved does not fit an optimizer with moments
  for (const auto& [name, tensor] : saved) {
    const size_t slash = name.find('/');
    // Without a phase it was saved when the run had only one, which was the first.
    const std::string phase =
        slash == std::string::npos ? phases_.at(0).phase.name : name.substr(0, slash);
    by_phase[phase].emplace_back(slash == std::string::npos ? name : name.substr(slash + 1),
                                 tensor);
  }
  for (const auto& [name, tensors] : by_phase) {
    const auto found = find(phases_, name);
    if (found == phases_.end()) continue;  // a phase of epochs beyond this run
    if (!current_ || name != current_->name) {
      make_optimizer(found->phase,
                     enter_phase(task_, found->phase, config_.model.freeze).parameters);
      current_.reset();  // what requires gradients is no longer what the reducer was made for
    }
    optimizers_.at(name)->load(tensors);
  }
}

}  // namespace dtrain::train
