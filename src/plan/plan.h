#pragma once

// What a run would be on other numbers of ranks: its batches, steps, time, memory and bytes on the
// wire. The batches are those that the run itself would have (train/batch_arithmetic.h). Pure.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/forecast.h"
#include "text/named_enum.h"
#include "train/batch_arithmetic.h"

namespace dtrain::plan {

// What more ranks do to the global batch: it stays, in fewer or smaller micro-steps, or it grows
// with them.
enum class Scaling { kKeep, kGrow };
constexpr auto names_of(Scaling) { return names("keep", "grow"); }

// A run whose configuration fixes the global batch keeps it.
Scaling scaling_of(const config::Train&);

// The train section of the same run where `scaling` decides. `kGrow`: batch_size and the
// micro-steps that one rank would need for the global batch stay those of each rank. `kKeep`: the
// global batch stays that of one rank.
config::Train scaled(const config::Train&, Scaling);

// The samples of each micro-step of the rank that has the most of a step of `samples`, in order.
std::vector<int64_t> micro_batches(const train::BatchArithmetic&, int64_t samples);

// The sizes of micro-steps that plans for these ranks need, ascending: what has to be measured.
std::vector<int64_t> sizes_needed(const config::Train&, std::span<const int64_t> ranks,
                                  int64_t samples);

// What a training cannot have of a card's memory: CUDA's context, NCCL's buffers and the workspaces
// of cuDNN and cuBLAS. Not measured where there is no such card.
inline constexpr int64_t kReservedBytes = int64_t{1} << 30;

// Bytes that a rank sends in an optimizer step.
struct Sent {
  double gradients = 0, statistics = 0, host = 0;
};

struct PlanRow {
  train::BatchArithmetic batches;
  int64_t nodes = 1;
  StepForecast step = {};    // a full step
  double epoch_seconds = 0;  // training only
  double samples_per_second = 0;
  double efficiency = 1;  // samples per second and rank, in relation to those of one rank alone
  Sent sent = {};
  // Memory of the rank that needs most; on a CPU, `batch` with those that are read ahead
  train::StepMemory memory = {};
  bool estimated = false;    // a micro-step has a size that was not measured
  std::string blocked = {};  // why such a run makes no sense or does not fit; "": it does
  std::vector<std::string> notes = {};
};

struct Request {
  config::Train train;  // from the resolved configuration
  std::vector<int64_t> ranks;
  Assumptions assumptions;
  int64_t memory_bytes = 0;  // capacity of the planned device; 0: not known
  std::string memory_name;   // for the message
  // Flags that make a micro-step of the same samples need less memory, for the message.
  std::vector<std::string> smaller = {};
};

// Compares the memory with that of the smallest GPU: the ranks that measured, one value each, plan
// all alike.
void compare_with_gpus(Request&, std::span<const int64_t> memory_bytes);

// One row for each of `ranks`, in their order.
std::vector<PlanRow> make_plan(const MeasuredRun&, const Request&);

}  // namespace dtrain::plan
