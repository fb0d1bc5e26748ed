#pragma once

// Which parameters share one flat buffer and one collective. Pure, so that every rank comes to the
// same result.

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "dist/cost_fit.h"

namespace dtrain::dist {

struct ParamInfo {
  int64_t elements = 0;
  at::ScalarType dtype = at::kFloat;
};

struct Bucket {
  at::ScalarType dtype = at::kFloat;
  std::vector<size_t> params;    // indices into the parameter list, in the order of the buffer
  std::vector<int64_t> offsets;  // element offset of each, aligned to 64 bytes
  int64_t elements = 0;          // size of the whole buffer, with the gaps for alignment
};

// Buckets in reverse order of the parameters, which is roughly the order in which backward finishes
// them. The first is closed at `first_bytes`, so that communication starts early, the others at
// `cap_bytes`. A bucket has one dtype. A parameter larger than the cap is a bucket of its own.
// Every parameter is in exactly one bucket.
std::vector<Bucket> plan_buckets(std::span<const ParamInfo> params, int64_t cap_bytes,
                                 int64_t first_bytes);

// The size of buckets with which `gradient_bytes` cost least: the latency of all buckets, and the
// transfer of the last one, which no backward hides, add up to bytes / size × α + size × β, which
// is smallest at sqrt(bytes × α / β). Of the powers of two from 256 KiB to 128 MiB the nearest, so
// that small errors of the measurement change nothing. Without a measured cost, 25 MiB.
int64_t best_bucket_bytes(const CostFit&, int64_t gradient_bytes);

}  // namespace dtrain::dist
