#include "train/consumption.h"

#include <limits>
#include <utility>
#include <vector>

#include "dist/object_collectives.h"

namespace dtrain::train {
namespace {

int64_t count_over_ranks(const std::set<int64_t>& own, dist::Communicator& host) {
  const std::vector<int64_t> ids =
      dist::all_gather_values(host, std::vector<int64_t>(own.begin(), own.end()));
  return static_cast<int64_t>(std::set<int64_t>(ids.begin(), ids.end()).size());
}

}  // namespace

double padding_waste(int64_t rows, int64_t cells) {
  return cells > 0 ? 1 - static_cast<double>(rows) / static_cast<double>(cells)
                   : std::numeric_limits<double>::quiet_NaN();
}

void Consumption::add(const data::Batch& batch) {
  for (const int64_t id : batch.ids) ledger_.add(batch.epoch, id);
  samples_seen_ += batch.samples();
  if (batch.samples() > 0 && batch.lengths.defined() &&
      batch.inputs.dim() > 2) {  // [N, F] has no time
    rows_ += batch.rows;
    cells_ += batch.inputs.size(0) * batch.inputs.size(1);
  }
}

measure::PaddedRows Consumption::take_padded() {
  const measure::PaddedRows all{static_cast<double>(rows_), static_cast<double>(cells_)};
  const measure::PaddedRows before = std::exchange(taken_, all);
  return {all.rows - before.rows, all.cells - before.cells};
}

Consumption::Totals Consumption::totals(dist::Communicator& host,
                                        const std::set<int64_t>& bad_ids) const {
  at::Tensor sums = at::tensor(
      {static_cast<int64_t>(ledger_.value()), rows_, cells_, static_cast<int64_t>(bad_ids.size())},
      at::kLong);
  host.all_reduce(sums, dist::ReduceOp::kSum).wait();
  const int64_t* values = sums.const_data_ptr<int64_t>();
  Totals totals{.ledger = static_cast<uint64_t>(values[0]),
                .rows = values[1],
                .cells = values[2],
                .left_out = values[3],
                .bad_samples = reported_.bad_samples};
  // Several ranks may have left out the same sample, in different epochs.
  if (totals.left_out != reported_.left_out) totals.bad_samples = count_over_ranks(bad_ids, host);
  return totals;
}

Consumption::Report Consumption::report(dist::Communicator& host,
                                        const std::set<int64_t>& bad_ids) {
  const Totals before = std::exchange(reported_, totals(host, bad_ids));
  return {reported_, padding_waste(reported_.rows - before.rows, reported_.cells - before.cells)};
}

}  // namespace dtrain::train
