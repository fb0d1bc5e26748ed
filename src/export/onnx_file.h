#pragma once

// A graph as the bytes of an ONNX file. This is a separate library that includes no torch header,
// because LibTorch's include folder contains headers of another protobuf version.
//
// Thread-safety: pure functions.

#include <string>

#include "export/graph.h"

namespace dtrain::exporting {

inline constexpr int64_t kOnnxIrVersion = 8;
inline constexpr int64_t kOnnxOpset = 13;

// The result has passed ONNX's checker and shape inference; a graph that they reject is a bug
// (Error). OutputError if it would exceed the 2 GiB of a protobuf message.
std::string to_onnx(const Graph&);

// OutputError if `bytes` of constants do not fit into an ONNX file.
void check_onnx_size(int64_t bytes);

}  // namespace dtrain::exporting
