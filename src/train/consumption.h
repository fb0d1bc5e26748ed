#pragma once

// What a run has consumed so far: which samples (as a ledger), how many, how much of the batches
// was padding, and which samples could not be read. Each rank adds its own micro-batches; the
// totals are sums over ranks.
//
// Thread-safety: none; the training thread owns it.

#include <cstdint>
#include <set>

#include "data/batch.h"
#include "data/order/ledger.h"
#include "dist/communicator.h"
#include "measure/step_times.h"

namespace dtrain::train {

// The share of computed cells that was padding, NaN without padded batches. `rows` were valid, of
// `cells` in all.
double padding_waste(int64_t rows, int64_t cells);

class Consumption {
 public:
  // A resumed run continues with the values of the checkpoint. The ledger of one rank, rank 0,
  // begins with the saved sum of all ranks.
  explicit Consumption(uint64_t ledger = 0, int64_t samples_seen = 0)
      : ledger_(ledger), samples_seen_(samples_seen) {}

  void add(const data::Batch&);  // a micro-batch of this rank; it may have no samples

  int64_t samples_seen() const { return samples_seen_; }  // this rank only
  measure::PaddedRows take_padded();  // this rank's micro-batches since the last call

  struct Totals {  // over all ranks
    uint64_t ledger = 0;
    int64_t rows = 0, cells = 0;  // padded batches only, see padding_waste(); 0 if there are none
    int64_t left_out = 0;         // bad samples, each counted by every rank that met it
    int64_t bad_samples = 0;      // different bad samples
  };
  // `bad_ids`: what the loader of this rank has left out so far. Collective.
  Totals totals(dist::Communicator& host, const std::set<int64_t>& bad_ids) const;

  struct Report {
    Totals totals;
    double padding_waste;  // since the last report
  };
  Report report(dist::Communicator& host, const std::set<int64_t>& bad_ids);  // collective

 private:
  data::Ledger ledger_;
  int64_t samples_seen_;
  int64_t rows_ = 0, cells_ = 0;
  measure::PaddedRows taken_;  // totals at the last take_padded()
  Totals reported_;            // at the last report
};

}  // namespace dtrain::train
