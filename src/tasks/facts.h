#pragma once

// What a network must know of its data before it is made, and how a checkpoint keeps it. It comes
// from the data file when training and from the metadata of a checkpoint afterwards.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/store.h"

namespace dtrain::tasks {

using Metadata = std::map<std::string, std::string>;  // stored in model.safetensors

struct DataFacts {
  int64_t features = 0;     // values per row; 0: images
  int64_t longest = 0;      // rows of the longest sample of the file; 0: images
  int64_t stored_size = 0;  // shorter side of the stored images in pixels; 0: no images
  std::vector<std::string> classes = {};  // names, by class number
  // Samples of the training split, by class; empty without classes
  std::vector<int64_t> class_counts = {};
  double mean_rows = 1;  // mean over the inputs of the training split
};

DataFacts facts_of(const data::Store&, const std::vector<int64_t>& train_ids);

// The keys are features, longest, stored_size and class_names (joined by '\n'). A fact without its
// key keeps its default, and a fact that has its default gets no key. CheckpointError for a value
// that is not a count.
DataFacts facts_of(const Metadata&);
Metadata to_metadata(const DataFacts&);

// The configuration that makes the task of a checkpoint again, for eval, predict and export: task,
// model.*, and no augmentation. CheckpointError when a key is missing, ConfigError when it names an
// unknown task, network or loss.
config::Config config_of(const Metadata&);

}  // namespace dtrain::tasks
