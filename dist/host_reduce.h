#pragma once

// The arithmetic of reductions on the host: element by element in the order of the ranks, so that the result is a
// function of the inputs alone. Pure; float16 and bfloat16 are reduced in float32 and rounded once, int64 wraps around,
// a NaN wins kMax and kMin.

#include <cstdint>
#include <span>

#include "dist/communicator.h"

namespace dtrain::dist {

// out[i] = by_rank[0][i] op by_rank[1][i] op ... `out` may be one of the inputs. Throws Error for a dtype without
// reduction.
void reduce_in_rank_order(at::ScalarType dtype, ReduceOp op, std::span<const void* const> by_rank, void* out,
                          int64_t elements);

}  // namespace dtrain::dist
