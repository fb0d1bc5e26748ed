#pragma once

// Which samples had a loss that is not finite. Every micro-step notes them on the device, without
// waiting for it; logging steps read the record.
//
// Thread-safety: none; the training thread owns it.

#include <torch/types.h>

#include <string>
#include <vector>

#include "data/store.h"
#include "dist/communicator.h"

namespace dtrain::train {

class BadLosses {
 public:
  explicit BadLosses(at::Device);

  // The first micro-step with such a sample, which note_losses() has noted: later ones are often
  // consequences of it.
  const at::Tensor& record() const { return record_; }
  void clear();  // none is noted

  struct Found {
    int64_t bad = 0, of = 0;   // bad samples, and all samples of these micro-steps, over all ranks
    std::vector<int64_t> ids;  // some of the bad ones, ascending
  };
  Found gather(dist::Communicator& host) const;  // collective; waits for the device

 private:
  at::Tensor record_;  // int64, of kernels::LossesOfSamples; ids that it does not name are -1
};

// "the loss of 2 of 64 samples is not finite: data.h5#3 (a.png), data.h5#17 (b.png)", and what to
// do about it. `against_overflow`: the flag that helps beside a smaller learning rate, as
// precision.h gives it.
std::string describe(const BadLosses::Found&, const data::Store&,
                     const std::string& against_overflow);

}  // namespace dtrain::train
