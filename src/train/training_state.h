#pragma once

// state.json of a checkpoint: what of a run is neither weights nor optimizer moments. Also what a resume compares
// before it trains.

#include <cstdint>
#include <string>

#include "train/grad_scaler.h"
#include "train/metric_watch.h"

namespace dtrain::train {

struct TrainingState {
  int64_t step = 0;
  int64_t global_batch = 0;
  uint64_t ledger = 0;  // over all ranks
  std::string metric;   // that watch and plateau are of
  MetricWatch watch;
  Plateau plateau;
  GradScaler::State scaler;
  bool evaluation_owed = false;  // due at this step, and left to whoever resumes: the run was asked to stop
  uint64_t data_checksum = 0;
  uint64_t splits_checksum = 0;  // of what is trained, validated and tested on
  std::string config_yaml;       // resolved, of the run that saved
  std::string torch_version;
};

std::string to_json(const TrainingState&);
TrainingState from_json(const std::string& text);  // CheckpointError when a field is missing or misshapen

}  // namespace dtrain::train
