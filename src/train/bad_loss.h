#pragma once

// Which samples had a loss that is not finite: noted on the device in every micro-step, read on logging steps only.
// Thread-safety: none; the training thread owns it.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "data/store.h"
#include "dist/communicator.h"

namespace dtrain::train {

class BadLosses {
 public:
  explicit BadLosses(at::Device);

  // per_sample and ids: [B] on the device; an undefined per_sample is not looked at. The first micro-step with such a
  // sample is the one that is kept.
  void note(const at::Tensor& per_sample, const at::Tensor& ids);

  struct Found {
    int64_t bad = 0, of = 0;   // samples of those micro-steps, over all ranks
    std::vector<int64_t> ids;  // some of the bad ones, ascending
  };
  Found gather(dist::Communicator& host) const;  // collective; waits for the device

 private:
  at::Tensor record_;  // [2 + kNamed] int64: bad, of, ids (-1: none)
};

// "the loss of 2 of 64 samples is not finite: data.h5#3 (a.png), data.h5#17 (b.png)", and what it may mean.
std::string describe(const BadLosses::Found&, const data::Store&);

}  // namespace dtrain::train
