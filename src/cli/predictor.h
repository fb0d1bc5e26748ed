#pragma once

// The predictions of one rank of `dtrain predict`: its batches of the samples, as rows of text.
// Thread-safety: none. Ownership: borrows what the constructor gets.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/rows_text.h"
#include "data/loader/loader.h"
#include "data/order/shard.h"
#include "data/store.h"
#include "job/process_context.h"
#include "tasks/task.h"
#include "train/precision.h"

namespace dtrain::cli {

// Which rank predicts which samples. Ranks take whole batches in turn, so that the samples of a
// batch, and with them the bits of the predictions, do not depend on the number of ranks.
struct Turns {
  int64_t count = 0, batch_size = 1;
  data::Shard shard;

  int64_t steps() const { return data::steps_per_epoch(count, batch_size * shard.size); }
  int64_t samples(int64_t step) const;        // total over all ranks
  data::Range positions(int64_t step) const;  // this rank's part; may be empty
  std::vector<int64_t> own(const std::vector<int64_t>& ids) const;
};

// What is predicted, in the order of the rows.
struct PredictInputs {
  std::unique_ptr<data::Store> store;
  std::vector<int64_t> ids;
  bool converted = false;  // an HDF5 file
};

// The rows of one batch of this rank.
struct Chunk {
  std::string text;
  int64_t bad = 0;
  double latency = 0;  // seconds from the batch on the device to its rows; 0: no sample
};

class Predictor {
 public:
  // The network of the task is on its device. Starts to read. DataError.
  Predictor(job::ProcessContext&, const InferenceOptions&, tasks::Task&, train::Precision,
            const PredictInputs&, const RowWriter&);

  const Turns& turns() const { return turns_; }
  // To be called with each step, in order. DataError.
  Chunk rows_of(int64_t step);

 private:
  tasks::Task& task_;
  const train::Precision precision_;
  const at::Device device_;
  const PredictInputs& samples_;
  const Turns turns_;
  const RowWriter& writer_;
  std::optional<data::Loader> loader_;  // none on a rank without samples
};

}  // namespace dtrain::cli
