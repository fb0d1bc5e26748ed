#pragma once

// The graph of each network in eval mode, built from the tensors and the metadata of its checkpoint
// (not traced). Batch norm is folded into the preceding convolution, and dropout is omitted.
//
//   image networks   images [batch, 3, S, S] float32, normalized (metadata: mean, std) -> the
//                    task's catalog::TaskEntry::output [batch, outputs]
//   cnn_lstm         sequences [batch, time, F] float32, lengths [batch] int64 ->
//                    logits [batch, classes]
//   pointer_network  elements [batch, L, F] float32, lengths [batch] int64 -> order [batch, L]
//                    int64, -1 beyond the length; L is the longest set that it was trained on
//
// Errors: CheckpointError (a tensor is missing, left over or has another shape), UsageError (the
// network has no graph; the message says what to do instead).
// Thread-safety: pure functions.

#include <map>
#include <string>

#include "catalog/catalog.h"
#include "export/graph.h"
#include "export/weights.h"

namespace dtrain::exporting {

using Metadata = std::map<std::string, std::string>;

// CheckpointError if the metadata lack the key.
const std::string& required(const Metadata&, const std::string& key);
int64_t required_integer(const Metadata&, const std::string& key);

Graph build_graph(const Weights&, const Metadata&);

// Why the network has no INT8 form, as a message for users; "" if it has one.
std::string why_not_int8(const std::string& network);

// One per kind of network.
Graph image_graph(const catalog::NetworkEntry&, const catalog::PictureLayers&, const Weights&,
                  const Metadata&);
Graph sequence_graph(const catalog::SequenceLayers&, const Weights&, const Metadata&);
Graph set_graph(const catalog::SetLayers&, const Weights&, const Metadata&);

}  // namespace dtrain::exporting
