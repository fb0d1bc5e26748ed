#pragma once

// `dtrain tune`: tries settings of a run and keeps those that train most samples per second. In
// this order: the largest batch that fits into memory (in processes of their own), precision ×
// channels_last × checkpointing, the batch at the knee of the rate and with it the precision and
// format again, reader threads × read-ahead, and at the end the given settings and the found ones
// beside each other. No training is kept. Where two choices are as good, the one that takes less is
// kept; of networks, the given one.
//
// The global batch stays as it is: other micro-batches accumulate to it. Rates of trials are those
// of one micro-step, from which that of the optimizer step is computed; the last comparison makes
// whole steps where the time suffices for them.

#include <atomic>

#include "core/parallel.h"
#include "job/process_context.h"
#include "tune/tune_result.h"

namespace dtrain::tune {

// `stop`: set by a signal; then the result has what was found so far. DeviceError if not even one
// sample fits into memory, which names what is needed. Errors of the configuration and the data are
// those of a training. Collective; every rank gets the same result.
TuneResult tune(job::ProcessContext&, const config::Loaded&, const TuneOptions&,
                const std::atomic<bool>& stop, const ReportProgress&);

}  // namespace dtrain::tune
