#pragma once

// The INT8 form of a network for `dtrain export`: calibrated on samples of a data file, measured on
// others, and the change in accuracy printed.

#include <cstdint>
#include <string>

#include "data/hdf5/probe_process.h"
#include "export/graph.h"
#include "job/trained_model.h"

namespace dtrain::cli {

struct Int8Export {
  std::string data, split;  // "": the file that it was trained on; val, or train without one
  int64_t samples = 256;    // to calibrate on
  int64_t batch_size = 32;
  int threads = 1;  // reader threads
  std::string out;  // what is written: not the data
};

// DataError, OutputError; CheckpointError for a graph whose output has no valid scale.
exporting::Graph int8_graph(data::ProbeProcess&, const exporting::Graph&, const job::TrainedModel&,
                            const Int8Export&);

}  // namespace dtrain::cli
