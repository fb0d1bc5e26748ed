#pragma once

// A graph as the bytes of an ONNX file (ir version 8, opset 13). A library of its own whose one source sees no torch
// header: LibTorch carries headers of another protobuf. Thread-safety: pure functions.

#include <string>

#include "export/graph.h"

namespace dtrain::exporting {

inline constexpr int64_t kOnnxIrVersion = 8;
inline constexpr int64_t kOnnxOpset = 13;

// Checked by ONNX's own checker and shape inference before it is returned: a graph that they refuse is a bug, Error.
// OutputError when it would not fit the 2 GiB of a protobuf message.
std::string to_onnx(const Graph&);

// OutputError when `bytes` of constants do not fit an ONNX file.
void check_onnx_size(int64_t bytes);

}  // namespace dtrain::exporting
