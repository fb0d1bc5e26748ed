#include "job/data_set.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/log.h"
#include "data/hdf5/file_store.h"
#include "data/loader/sample_check.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::job {

const std::vector<int64_t>& DataSet::ids(const std::string& split) const {
  return split == "train" ? splits.train : split == "val" ? splits.val : splits.test;
}

DataSet open_data(data::ProbeProcess& prober, const std::string& file,
                  const config::Config& config) {
  DataSet data;
  data.store = data::open_file(prober.probe(file));
  data.splits =
      data::splits(*data.store, config.data.val_share, config.train.seed, config.data.share);
  return data;
}

DataSet open_data_of_run(data::ProbeProcess& prober, const std::vector<std::string>& places,
                         uint64_t checksum, const config::Config& config) {
  std::vector<std::string> reasons;  // one per place that exists: why it is not used
  std::string why_not_first = places.front() + " is not there";
  for (const std::string& place : places) {
    std::error_code unknown;
    if (!std::filesystem::exists(place, unknown)) continue;
    try {
      DataSet data = open_data(prober, place, config);
      if (data.store->schema().checksum == checksum) {
        if (place != places.front())
          log::info(str("the data of the run is ", place, ": ", why_not_first));
        return data;
      }
      reasons.push_back(
          str(place, " has another checksum than the data that the run was trained on"));
    } catch (const DataError& error) {
      reasons.emplace_back(error.what());
    }
    if (place == places.front()) why_not_first = reasons.back();
  }
  if (reasons.empty()) {
    throw DataError(str("the data of the run is not there. Looked for: ", join(places, ", "),
                        ". Name the file with --dataset"));
  }
  throw DataError(str(join(reasons, "; "), ". Name the right file with --dataset"));
}

std::string untrained_classes(const DataSet& data) {
  const std::vector<std::string> known = data::class_names(data.store->origin());
  std::vector<std::string> names;
  for (const int64_t label : data.splits.untrained_classes) {
    names.push_back(known.empty() ? std::to_string(label) : known[static_cast<size_t>(label)]);
  }
  return printable(str("data.val_share takes all training samples of the ",
                       names.size() == 1 ? "class " : "classes ", join(names, ", "),
                       ": the network cannot learn ", names.size() == 1 ? "it" : "them",
                       ". Add samples, or convert with splits that hold some of each class"));
}

void check_data(const data::Store& store, tasks::Task& task, const config::Data& config) {
  task.check(store);
  if (!config.skips_bad_samples()) data::check_samples(store, task.samples());
}

int reader_threads(int64_t workers, int cores) {
  return workers > 0 ? static_cast<int>(workers) : std::clamp(cores / 2, 1, 8);
}

}  // namespace dtrain::job
