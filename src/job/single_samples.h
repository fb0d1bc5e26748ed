#pragma once

// A training whose micro-batches have one sample, where no division of its batches avoids that,
// with a network that cannot train on one: found before step 1, not at the end of the first epoch.
// The network is tried, because only its code knows: batch norm over one value per channel has no
// variance, a squeeze() may remove the dimension of the batch.

#include <torch/types.h>

#include <string>

#include "config/config.h"
#include "job/data_set.h"
#include "tasks/task.h"
#include "train/batch_arithmetic.h"
#include "train/precision.h"

namespace dtrain::job {

struct SingleSampleTraining {
  const config::Config& config;
  const DataSet& data;
  train::BatchArithmetic batches;  // for the whole training
  train::Precision precision = train::Precision::kFp32;
  at::Device device = at::kCPU;
  bool keeps_global_batch = false;  // a batch size does not change it
  bool resumed = false;
};

// ConfigError if the training has micro-batches of one sample on which the network fails, with the
// flags that avoid them. A warning, or "", if only bad samples that are left out may leave one
// sample of a pair. The network on the device is as before, as are the random generators.
std::string check_single_samples(tasks::Task&, const SingleSampleTraining&);

// What fails in forward, loss and gradient of one training sample but not of two: LibTorch's
// message, or what is not finite. "": nothing, or it is not a matter of one sample. The network is
// as before. c10::Error if the device has failed.
std::string single_sample_defect(tasks::Task&, const SingleSampleTraining&);

}  // namespace dtrain::job
