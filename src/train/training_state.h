#pragma once

// state.json of a checkpoint: the state of a run beside the weights and the optimizer's moments,
// and what a resume compares with its own configuration and data before it trains.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/grad_scaler.h"
#include "train/metric_watch.h"

namespace dtrain::train {

struct TrainingState {
  int64_t step = 0;
  int64_t global_batch = 0;
  uint64_t ledger = 0;  // over all ranks
  std::string metric;   // watch and plateau are of this one
  MetricWatch watch;
  Plateau plateau;
  GradScaler::State scaler;
  // All validation metrics, measured at this step; empty: none were (older checkpoints do not
  // say it).
  std::vector<std::pair<std::string, double>> evaluation;
  // Due at this step; the resumed run makes it up, because a request to stop came first
  bool evaluation_owed = false;
  uint64_t data_checksum = 0;
  uint64_t splits_checksum = 0;  // covers the sample ids of training, validation and test
  // What the targets mean (data::meaning_of()); none in checkpoints that were saved before it
  // was kept.
  std::optional<std::map<std::string, std::string>> data_meaning;
  int64_t data_modified_ns = 0;  // Store::modified_ns(); 0: unknown
  std::string config_yaml;       // resolved, of the run that saved
  std::string torch_version;
};

std::string to_json(const TrainingState&);
// CheckpointError if a field is missing or malformed
TrainingState from_json(const std::string& text);

}  // namespace dtrain::train
