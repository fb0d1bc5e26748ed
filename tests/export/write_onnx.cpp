// Writes the graph of a model.safetensors as ONNX, for onnx_test.py. Usage: write_onnx
// IN.safetensors OUT.onnx

#include <cstdio>
#include <exception>

#include "export/networks.h"
#include "export/onnx_file.h"
#include "os/file_system.h"

int main(int count, char** arguments) {
  try {
    if (count != 3) throw std::runtime_error("usage: write_onnx IN.safetensors OUT.onnx");
    namespace exporting = dtrain::exporting;
    exporting::Metadata metadata;
    const exporting::Weights weights = exporting::read_weights(arguments[1], &metadata);
    dtrain::write_atomically(dtrain::real_file_system(), arguments[2],
                             exporting::to_onnx(exporting::build_graph(weights, metadata)));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
