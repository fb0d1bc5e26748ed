#pragma once

// A data file opened for a run or a command: its samples and which of them are for training,
// validation and test. Not collective: each rank opens the file by itself, inside dist::agree().

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/hdf5/probe_process.h"
#include "data/order/splits.h"
#include "data/store.h"
#include "tasks/task.h"

namespace dtrain::job {

struct DataSet {
  std::unique_ptr<data::Store> store;
  data::Splits splits;

  // `split`: "train", "val" or "test"
  const std::vector<int64_t>& ids(const std::string& split) const;
};

// Opens `file`, its structure in the other process, and divides it by the configuration's
// data.val_share, data.share and train.seed, so that every command sees the splits that training
// saw. DataError.
DataSet open_data(data::ProbeProcess&, const std::string& file, const config::Config&);

// The data of a run, opened likewise from the first of `places` (job/run_paths.h) whose checksum is
// `checksum`. Logs which one it is unless it is the first. DataError that names the places where
// there is something, and what.
DataSet open_data_of_run(data::ProbeProcess&, const std::vector<std::string>& places,
                         uint64_t checksum, const config::Config&);

// For people: the classes that data.val_share left without a training sample. Requires: there
// are some.
std::string untrained_classes(const DataSet&);

// DataError if the file is not for this task or, unless bad samples are skipped, any of its samples
// is bad.
void check_data(const data::Store&, tasks::Task&, const config::Data&);

// Reader threads of a rank: `workers`, or for 0 as many as suit a rank with this number of `cores`.
int reader_threads(int64_t workers, int cores);

}  // namespace dtrain::job
