#include "train/step_graphs.h"

#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "device/device.h"
#include "dist/device_wait.h"
#include "dist/object_collectives.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

using Tensors = std::vector<at::Tensor>;
using checkpoint::NamedTensors;

constexpr size_t kMostKinds = 16, kMostSeen = 64;
constexpr int64_t kMostCaptures = 32;  // for combinations of shapes, in each phase
constexpr double kNothing = 1e-6;      // the share of the largest change that counts as none

// On the host: where a step fits into the memory of the device, two copies may not.
Tensors copies_of(const NamedTensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.push_back(tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  return copies;
}

void put_back(const Tensors& kept, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].second.detach().copy_(kept[i]);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return at::linalg_vector_norm(a.to(at::kDouble) - b.to(at::kDouble)).item<double>();
}

// A step that gives a NaN gives it again.
bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::isclose(a, b, 0, 0, /*equal_nan=*/true).all().item<bool>();
}

}  // namespace

int64_t first_difference(const Tensors& before, const Tensors& one, const Tensors& other,
                         double share) {
  std::vector<double> changed;
  double most = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    changed.push_back(distance(before[i], one[i]));
    if (std::isfinite(changed[i])) most = std::max(most, changed[i]);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (equal_bits(one[i], other[i])) continue;
    const double differs = distance(one[i], other[i]);
    const bool small = differs <= share * changed[i] || differs <= kNothing * most;
    if (share == 0 || !small) return static_cast<int64_t>(i);
  }
  return -1;
}

StepGraphs::StepGraphs(bool enabled, at::Device device, Communicators communicators,
                       PhaseTracker& tracker, Training training, double share)
    : enabled_(enabled),
      device_(device),
      communicators_(communicators),
      tracker_(tracker),
      training_(std::move(training)),
      share_(share),
      memory_(device::CudaGraph::new_memory()) {}

void StepGraphs::forget() {
  known_.clear();
  seen_.clear();
  captured_ = 0;
  // What libraries have allocated in a capture may outlive its graph, and keeps the memory.
  memory_ = device::CudaGraph::new_memory();
}

bool StepGraphs::has_collectives(const Kind& kind) const {
  return communicators_.host.size() > 1 && (kind.last || communicators_.statistics != nullptr);
}

bool StepGraphs::can_be_captured(const Kind& kind) const {
  const dist::Communicator* statistics = communicators_.statistics;
  return enabled_ && (!kind.last || communicators_.gradients.can_be_captured()) &&
         (statistics == nullptr || statistics->can_be_captured());
}

const StepGraphs::MicroStep* StepGraphs::find(const Kind& kind) const {
  const auto found = std::ranges::find(known_, kind, &MicroStep::kind);
  return found == known_.end() ? nullptr : &*found;
}

bool StepGraphs::came_before(const Kind& kind) {
  if (!kind.has_samples) return false;
  if (std::ranges::count(seen_, kind) > 0) return true;
  if (seen_.size() < kMostSeen) seen_.push_back(kind);
  return false;
}

StepGraphs::Form StepGraphs::form_of(const Kind& kind, bool may_capture) {
  const bool together = has_collectives(kind);
  if (!can_be_captured(kind) || off_ > 0 || (together ? given_up_together_ : given_up_))
    return Form::kStages;
  const MicroStep* known = find(kind);
  struct Answer {
    bool is_ready;  // to capture it
    int64_t number;
  };
  const Answer mine{.is_ready = may_capture && came_before(kind) && known_.size() < kMostKinds &&
                                captured_ < kMostCaptures,
                    .number = known == nullptr ? -1 : known->number};
  const std::vector<Answer> all =
      together ? dist::all_gather_object(communicators_.host, mine) : std::vector<Answer>{mine};
  const auto is_same = [&](const Answer& one) { return one.number == all[0].number; };
  if (all[0].number >= 0 && std::ranges::all_of(all, is_same)) return Form::kGraphs;
  return std::ranges::all_of(all, &Answer::is_ready) ? Form::kCapture : Form::kStages;
}

bool StepGraphs::run(const Kind& kind, const std::vector<Stage>& stages, bool may_capture) {
  switch (form_of(kind, may_capture)) {
    case Form::kStages:
      run_stages(stages);
      return false;
    case Form::kGraphs:
      launch(*find(kind));
      return true;
    case Form::kCapture:
      return capture(kind, stages);
  }
  return false;
}

void StepGraphs::run_stages(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    tracker_.enter(stage.phase);
    stage.run();
  }
}

void StepGraphs::launch(const MicroStep& micro_step) {
  for (const Graph& stage : micro_step.graphs) {
    tracker_.enter(stage.phase);
    stage.graph->launch();
    for (const auto& count : stage.count) count();
  }
}

void StepGraphs::wait_for_device() const {
  dist::wait_for_device(device_, {&communicators_.gradients, communicators_.statistics});
}

bool StepGraphs::capture(const Kind& kind, const std::vector<Stage>& stages) {
  const auto began = real_clock().now();
  const NamedTensors tensors = training_.written();
  wait_for_device();
  const Tensors before = copies_of(tensors);
  run_stages(stages);
  wait_for_device();
  const bool was_skipped = kind.last && training_.was_skipped();
  if (has_collectives(kind) ? dist::largest_of_ranks(communicators_.host, was_skipped ? 1 : 0) > 0
                            : was_skipped)
    return false;  // it does not show what the update does
  const Tensors after = copies_of(tensors);

  ++captured_;
  MicroStep micro_step{
      .kind = kind, .number = has_collectives(kind) ? captured_together_++ : 0, .graphs = {}};
  std::string problem;
  try {
    device::release_unused_memory(device_);  // the graphs take as much again
    micro_step.graphs = record(stages);
  } catch (const c10::Error& error) {
    if (!device::works(device_)) throw;
    problem = torch_message(error.what_without_backtrace());
  } catch (const DeviceError& error) {
    problem = error.what();
  }
  captures_ = false;
  if (!problem.empty()) training_.abandon();
  if (!is_without_problem(kind, problem)) return false;

  put_back(before, tensors);
  launch(micro_step);
  wait_for_device();
  const int64_t differs = first_difference(before, after, copies_of(tensors), share_);
  if (differs >= 0)
    problem = dtrain::str("a step with graphs gives other values of ",
                          tensors[static_cast<size_t>(differs)].first);
  if (!is_without_problem(kind, problem)) {
    put_back(after, tensors);
    return false;
  }
  std::erase_if(known_, [&](const MicroStep& known) { return known.kind == kind; });
  known_.push_back(std::move(micro_step));
  log::info(dtrain::str("CUDA graphs: ", kind.last ? "the last" : "an earlier",
                        " micro-step of a step is captured, shape ", at::IntArrayRef(kind.shape),
                        " (in ", fixed(seconds_between(began, real_clock().now()), 1), " s)"));
  return true;
}

std::vector<StepGraphs::Graph> StepGraphs::record(const std::vector<Stage>& stages) {
  captures_ = true;
  std::vector<Graph> graphs;
  for (size_t first = 0, end = 0; first < stages.size(); first = end) {
    for (end = first + 1; end < stages.size() && stages[end].of_previous;) ++end;
    Graph& graph =
        graphs.emplace_back(Graph{.phase = stages[first].phase, .graph = {}, .count = {}});
    graph.graph = std::make_unique<device::CudaGraph>(device_, memory_, [&] {
      for (size_t i = first; i < end; ++i) stages[i].run();
    });
    for (dist::Communicator* one : {&communicators_.gradients, communicators_.statistics}) {
      if (one == nullptr) continue;
      if (auto count = one->captured()) graph.count.push_back(std::move(count));
    }
  }
  return graphs;
}

bool StepGraphs::is_without_problem(const Kind& kind, const std::string& problem) {
  const bool together = has_collectives(kind);
  const std::vector<std::string> problems =
      together ? dist::all_gather_object(communicators_.host, problem)
               : std::vector<std::string>{problem};
  const auto found = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
  if (found == problems.end()) return true;
  (together ? given_up_together_ : given_up_) = true;
  std::erase_if(known_,
                [&](const MicroStep& known) { return has_collectives(known.kind) == together; });
  if (communicators_.host.rank() == 0 || !together) {
    const int64_t rank = together ? found - problems.begin() : communicators_.host.rank();
    log::warning(dtrain::str("CUDA graphs cannot be used, so ", together ? "the" : "these",
                             " steps run without them. On rank ", rank, ": ", *found));
  }
  return false;
}

}  // namespace dtrain::train
