#include "cli/int8_export.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "catalog/catalog.h"
#include "core/error.h"
#include "core/log.h"
#include "data/loader/loader.h"
#include "export/int8.h"
#include "job/data_set.h"
#include "os/output_guard.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

// The samples that an INT8 export is calibrated on, and those that it is measured on: the test
// split, which was used for nothing before, or without one the split of the calibration.
class Samples {
 public:
  Samples(data::ProbeProcess& prober, const job::TrainedModel& model, const Int8Export& how)
      : batch_size_(how.batch_size), threads_(how.threads) {
    const config::Config& config = model.config;
    data_ = job::open_data(prober, model, how.data);
    protect(how.out, {.files = {data_.store->origin().path()}, .folders = {}});
    job::check_data(*data_.store, *model.task, config.data);
    spec_ = model.task->samples();
    split_ = !how.split.empty() ? how.split : data_.splits.val.empty() ? "train" : "val";
    measured_split_ = data_.splits.test.empty() ? split_ : "test";
    std::vector<int64_t> ids = data_.ids(split_);
    measured_ = data_.ids(measured_split_);
    if (ids.empty()) {
      throw DataError(str(data_.store->origin().path().string(), " has no samples in its ", split_,
                          " split (try --split)"));
    }
    if (config.data.skips_bad_samples()) leave_out_bad(ids, measured_);
    // Spread evenly over the split, which may be sorted by class.
    const auto size = static_cast<int64_t>(ids.size()), count = std::min(how.samples, size);
    for (int64_t i = 0; i < count; ++i)
      calibration_.push_back(ids[static_cast<size_t>(i * size / count)]);
  }

  const std::string& split() const { return split_; }
  int64_t calibration_size() const { return static_cast<int64_t>(calibration_.size()); }
  const std::string& measured_split() const { return measured_split_; }
  exporting::Batches calibration() const { return batches(calibration_); }
  exporting::Batches measured() const { return batches(measured_); }

 private:
  std::unique_ptr<data::Loader> loader(const std::vector<int64_t>& ids, bool skip_bad) const {
    data::LoaderOptions pass = data::one_pass(static_cast<int64_t>(ids.size()), batch_size_);
    pass.threads = threads_;
    pass.skip_bad = skip_bad;
    pass.verify = data::Verify::kAlways;
    return std::make_unique<data::Loader>(*data_.store, ids, spec_, pass, data::Shard{});
  }

  // Reads all samples once, so that later passes do not report the bad ones again.
  void leave_out_bad(std::vector<int64_t>& ids, std::vector<int64_t>& measured) const {
    std::set<int64_t> both(ids.begin(), ids.end());
    both.insert(measured.begin(), measured.end());
    const auto reader = loader({both.begin(), both.end()}, /*skip_bad=*/true);
    while (!reader->done()) reader->next();
    for (std::vector<int64_t>* some : {&ids, &measured}) {
      std::erase_if(*some, [&](int64_t id) { return reader->bad_ids().contains(id); });
      if (some->empty()) {
        throw DataError(str("all samples of the ", some == &ids ? split_ : measured_split_,
                            " split of ", data_.store->origin().path().string(),
                            " were left out; why is said above"));
      }
    }
  }

  exporting::Batches batches(const std::vector<int64_t>& ids) const {
    return [this, &ids](const exporting::Visit& visit) {
      for (const auto reader = loader(ids, /*skip_bad=*/false); !reader->done();) {
        const data::Batch batch = reader->next();
        visit(batch.inputs.contiguous(), batch.targets);
      }
    };
  }

  int64_t batch_size_;
  int threads_;
  data::SampleSpec spec_;
  job::DataSet data_;
  std::vector<int64_t> calibration_, measured_;
  std::string split_, measured_split_;
};

void tell(const exporting::Int8Graph& int8, const exporting::Score& before,
          const exporting::Score& after, const Samples& samples) {
  const bool share = before.name == "top-1";
  const int digits = share ? 2 : 4;
  const std::string unit = share ? " %" : "";
  log::plain(str("calibrated on ", human_count(samples.calibration_size()), " samples of the ",
                 samples.split(), " split (ranges: ", int8.clipping, "); outputs differ by ",
                 fixed(100 * int8.difference_rms / std::max(int8.output_rms, 1e-30), 2),
                 " % of their root mean square"));
  log::plain(str(before.name, " on ", human_count(before.samples), " samples of the ",
                 samples.measured_split(), " split: float32 ", fixed(before.value, digits), unit,
                 ", int8 ", fixed(after.value, digits), unit, " (change ",
                 after.value < before.value ? "" : "+", fixed(after.value - before.value, digits),
                 share ? " points" : "", ")"));
  if (samples.measured_split() == samples.split()) {
    log::warning(str("int8 was calibrated and measured on the same split, ", samples.split(),
                     ": on new samples it may be worse. Measure it on samples of its own: "
                     "calibrate on another --split, or give a file with a test split (--dataset)"));
  }
}

}  // namespace

exporting::Graph int8_graph(data::ProbeProcess& prober, const exporting::Graph& graph,
                            const job::TrainedModel& model, const Int8Export& how) {
  const Samples samples(prober, model, how);
  const std::string& key = catalog::row(model.config.task).output_scale;
  const auto scale = graph.metadata.find(key);
  const std::optional<double> output_scale =
      scale == graph.metadata.end() ? 1.0 : parse_number<double>(scale->second);
  if (!output_scale) {
    throw CheckpointError(
        str("model.safetensors says ", key, " '", scale->second, "', not a number"));
  }
  exporting::Int8Graph int8 = exporting::to_int8(graph, samples.calibration());
  tell(int8, exporting::score(graph, samples.measured(), *output_scale),
       exporting::score(int8.graph, samples.measured(), *output_scale), samples);
  return std::move(int8.graph);
}

}  // namespace dtrain::cli
