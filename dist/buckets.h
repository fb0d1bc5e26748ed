#pragma once

// Which parameters share one flat buffer and one collective. Pure, so that every rank comes to the same result.

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain::dist {

struct ParamInfo {
  std::string name;
  int64_t elements = 0;
  at::ScalarType dtype = at::kFloat;
};

struct Bucket {
  at::ScalarType dtype = at::kFloat;
  std::vector<size_t> params;    // indices into the parameter list, in the order of the buffer
  std::vector<int64_t> offsets;  // element offset of each, aligned to 64 bytes
  int64_t elements = 0;          // of the whole buffer, without the extra elements
};

// Buckets in reverse order of the parameters, which is roughly the order in which backward finishes them. The first is
// closed at `first_bytes`, so that communication starts early, the others at `cap_bytes`. A bucket has one dtype. A
// parameter larger than the cap is a bucket of its own. Every parameter is in exactly one bucket.
std::vector<Bucket> plan_buckets(std::span<const ParamInfo> params, int64_t cap_bytes, int64_t first_bytes);

}  // namespace dtrain::dist
