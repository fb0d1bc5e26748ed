#include "job/data_set.h"

#include <algorithm>

#include "data/hdf5/file_store.h"
#include "data/loader/sample_check.h"

namespace dtrain::job {

const std::vector<int64_t>& DataSet::ids(const std::string& split) const {
  return split == "train" ? splits.train : split == "val" ? splits.val : splits.test;
}

DataSet open_data(data::ProbeProcess& prober, const std::string& file, const config::Config& config) {
  DataSet data;
  data.store = data::open_file(prober.probe(file));
  data.splits = data::splits(*data.store, config.data.val_share, config.train.seed, config.data.share);
  return data;
}

void check_data(const data::Store& store, tasks::Task& task, const config::Data& config) {
  task.check(store);
  if (!config.skips_bad_samples()) data::check_samples(store, task.samples());
}

int reader_threads(int64_t workers, int cores) {
  return workers > 0 ? static_cast<int>(workers) : std::clamp(cores / 2, 1, 8);
}

}  // namespace dtrain::job
