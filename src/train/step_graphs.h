#pragma once

// The micro-steps of a training as CUDA graphs (train.cuda_graph), which cost the host one launch
// for each stage in place of hundreds.
//
// After a few steps each kind of micro-step that comes again is captured once, stage by stage, with
// what it sums over ranks. A capture records the addresses that a stage uses, so a graph stands for
// the micro-steps whose batch lies at the same addresses and in which the host decides the same
// (Kind). All others run as without graphs: the last batch of an epoch, for example.
//
// A graph is checked before it is used: the stages run as without graphs, what they have written is
// put back, the graphs run, and what they have written must be the same. If it is not, or if a
// stage cannot be captured, none is used any more, and rank 0 says why.
//
// What NCCL carries in a micro-step is captured by all ranks or by none, and launched likewise: in
// each micro-step that has collectives the ranks agree, by one exchange of their hosts.
//
// Thread-safety: none; the training thread owns it. Ownership: borrows what it is given.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "device/cuda_graph.h"
#include "dist/communicator.h"
#include "train/phase_tracker.h"

namespace dtrain::train {

class StepGraphs {
 public:
  // A part of a micro-step, in a phase of its own. Nothing that a stage allocates is used outside
  // of the micro-step.
  struct Stage {
    measure::Phase phase;
    std::function<void()> run;
    bool of_previous = false;  // captured together with the stage before, in whose phase it counts
  };

  // What the host decides in a micro-step, and the addresses of the batch.
  struct Kind {
    bool last = false, has_samples = false;
    int64_t power_of_two = 0, of_task = 0;
    std::vector<int64_t> shape = {};
    std::vector<const void*> addresses = {};
    bool operator==(const Kind&) const = default;
  };

  // What the stages use of ranks: every last micro-step sums gradients, and every one statistics
  // (nullptr: none does). The ranks agree over `host`.
  struct Communicators {
    dist::Communicator& gradients;
    dist::Communicator* statistics;
    dist::Communicator& host;
  };
  struct Training {
    // All tensors that the stages change, but those that they allocate; named for a message
    std::function<checkpoint::NamedTensors()> written;
    // After stages that have failed while they were captured: the host is as before the first one.
    std::function<void()> abandon;
    // Whether the last step changed nothing, because its gradients were not finite
    std::function<bool()> was_skipped;
  };
  // `enabled`: on a GPU only; otherwise all stages run as they are, whatever their kind. `share`:
  // of first_difference()
  StepGraphs(bool enabled, at::Device, Communicators, PhaseTracker&, Training, double share);

  bool enabled() const { return enabled_; }
  // Steps that run before one is captured: cuDNN chooses its algorithms in them, and the reducer
  // its parameters. 0: not enabled.
  int64_t steps_before() const { return enabled_ ? 3 : 0; }
  // Runs the stages, by their graphs if there are any: then the result is true. `may_capture`: they
  // are captured before, if this kind has come before; all ranks say the same. Collective where the
  // stages are.
  bool run(const Kind&, const std::vector<Stage>&, bool may_capture);

  bool captures() const { return captures_; }  // the stage that runs is recorded, and not done

  // Addresses that the stages use have changed: there are no graphs any more.
  void forget();

  // For its lifetime nothing is captured, and no graph is launched.
  class Off {
   public:
    explicit Off(StepGraphs& graphs) : graphs_(graphs) { ++graphs_.off_; }
    ~Off() { --graphs_.off_; }
    Off(const Off&) = delete;
    Off& operator=(const Off&) = delete;

   private:
    StepGraphs& graphs_;
  };

 private:
  struct Graph {
    measure::Phase phase;
    std::unique_ptr<device::CudaGraph> graph;
    std::vector<std::function<void()>> count;  // what the communicators carry in it
  };
  struct MicroStep {
    Kind kind;
    int64_t number;  // that of its capture: with collectives the same on all ranks
    std::vector<Graph> graphs;
  };
  // What is to be done, in a micro-step with collectives the same on all ranks
  enum class Form { kStages, kGraphs, kCapture };

  void run_stages(const std::vector<Stage>&);
  void launch(const MicroStep&);
  // Whether they are captured now
  bool capture(const Kind&, const std::vector<Stage>&);
  std::vector<Graph> record(const std::vector<Stage>&);
  const MicroStep* find(const Kind&) const;  // nullptr: it was not captured
  bool has_collectives(const Kind&) const;   // the same answer on all ranks
  bool can_be_captured(const Kind&) const;   // likewise
  Form form_of(const Kind&, bool may_capture);
  bool came_before(const Kind&);
  void wait_for_device() const;
  // There is none, on any rank if the kind has collectives. Otherwise no graph of such kinds is
  // used any more.
  bool is_without_problem(const Kind&, const std::string& problem);

  const bool enabled_;
  bool given_up_ = false, given_up_together_ = false;  // kinds without and with collectives
  bool captures_ = false;
  int off_ = 0;
  const at::Device device_;
  const Communicators communicators_;
  PhaseTracker& tracker_;
  const Training training_;
  const double share_;
  device::CudaGraph::Memory memory_;
  std::vector<MicroStep> known_;
  std::vector<Kind> seen_;
  int64_t captured_ = 0, captured_together_ = 0;  // all, and those with collectives
};

// Whether two runs of the same work, which both begin with `before`, have done the same: the number
// of the first tensor that differs; -1: none. Kernels may add in any order, so a tensor differs by
// more than `share` of what has changed in it, and by more than a millionth of the largest change
// of all tensors. `share` 0: by any bit.
int64_t first_difference(const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& one,
                         const std::vector<at::Tensor>& other, double share);

}  // namespace dtrain::train
