#pragma once

// What to tell a run whose memory is full: what its step needs, and what three changes would save.
// What activations need is measured on the CPU with a few samples, with and without each change, so
// that it is known for a batch that does not fit.

#include <string>

#include "config/config.h"
#include "job/data_set.h"
#include "train/batch_arithmetic.h"
#include "train/memory_remedies.h"
#include "train/precision.h"

namespace dtrain::job {

struct FullMemory {
  at::Device device;
  int capability = 0;    // compute capability of a GPU: which precisions it has
  double capacity = 0;   // bytes that this rank may use at most
  double requested = 0;  // bytes that could not be allocated; 0: not known
};

// The memory that a run needs whose task trains on `data`. `bfloat16` where autocast is to be
// tried. Throws what a training throws.
train::MemoryNeed memory_need(const config::Config&, const DataSet&, const train::BatchArithmetic&,
                              train::Precision, const FullMemory&);

// train::describe() of it; "" if it cannot be measured, for example because there is no memory for
// that either.
std::string memory_advice(const config::Config&, const DataSet&, const train::BatchArithmetic&,
                          train::Precision, const FullMemory&) noexcept;

}  // namespace dtrain::job
