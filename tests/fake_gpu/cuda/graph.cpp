#include "cuda/graph.h"

namespace fake_gpu {

std::vector<CUgraphNode_st*> work_of(CUgraph_st& graph) {
  std::vector<CUgraphNode_st*> nodes;
  for (CUgraphNode_st& node : graph.nodes)
    if (node.step && node.is_asked_for) nodes.push_back(&node);
  return nodes;
}

bool join(CUgraph_st& graph) {
  // From the last node to the first one, because a node waits for earlier ones alone. What comes
  // before a node on its stream is waited for too.
  std::vector<bool> reached(graph.nodes.size()), stream_reached(graph.gpus.size());
  stream_reached[0] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    CUgraphNode_st& node = graph.nodes[i];
    if (reached[i]) stream_reached[node.stream] = true;
    if (stream_reached[node.stream]) {
      if (node.after.has_value()) reached[*node.after] = true;
    } else if (node.step && node.is_asked_for) {
      return false;
    } else {
      node.step = {};
    }
  }
  return true;
}

Point launch(const CUgraph_st& graph, const std::shared_ptr<Queue>& queue, const Point& previous) {
  if (!work_waits()) {
    for (const CUgraphNode_st& node : graph.nodes)
      if (node.step) node.step(nullptr);
    return {};
  }
  std::vector<std::shared_ptr<Queue>> queues;
  for (const int gpu : graph.gpus) queues.push_back(std::make_shared<Queue>(Queue{.gpu = gpu}));
  wait_later(queues[0], submit_later(queue, {}));
  wait_later(queues[0], previous);
  std::vector<Point> ends;
  for (const CUgraphNode_st& node : graph.nodes) {
    const std::shared_ptr<Queue>& own = queues[node.stream];
    if (node.after.has_value()) wait_later(own, ends[*node.after]);
    ends.push_back(node.step ? node.step(own) : submit_later(own, {}));
  }
  const Point end = submit_later(queues[0], {});
  wait_later(queue, end);
  return end;
}

}  // namespace fake_gpu
