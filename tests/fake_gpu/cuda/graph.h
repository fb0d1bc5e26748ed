#pragma once

// A graph: the work that streams were given while they were captured (capture.h), in the order of
// its submission. A launch gives it to queues of its own, one for each captured stream, so that
// schedule.h does it in any order that the recorded waits allow. As CUDA's, a launch waits for the
// launches before it of the same graph.
//
// Thread-safety: a graph that is complete may be launched from any thread.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/schedule.h"

struct CUgraphNode_st {
  size_t stream = 0;                 // its number among the captured ones, from 0
  std::optional<size_t> after = {};  // an earlier node of another stream
  fake_gpu::Step step = {};          // empty: it only waits
  bool is_asked_for = true;          // false: CUDA's graph would not have this work
};

struct CUgraph_st {
  std::vector<int> gpus = {};              // of each captured stream
  std::vector<CUgraphNode_st> nodes = {};  // the first, of stream 0, only marks the beginning
};

struct CUgraphExec_st {
  const CUgraph_st graph;  // a copy, because the graph may be destroyed
  std::mutex mutex = {};   // guards `last`
  fake_gpu::Point last = {};
};

namespace fake_gpu {

std::vector<CUgraphNode_st*> work_of(CUgraph_st&);  // what cudaGraphGetNodes() returns

// Whether the last node of stream 0 comes after all work of the other streams. Work that was not
// asked for and does not come before it is taken out.
bool join(CUgraph_st&);

// Gives the work to queues, after `queue` and `previous` have reached where they are; `queue` waits
// for it. Where work does not wait, it is done now. Returns where it ends.
Point launch(const CUgraph_st&, const std::shared_ptr<Queue>& queue, const Point& previous);

}  // namespace fake_gpu
