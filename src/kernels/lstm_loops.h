#pragma once

// What one step of an LSTM computes beside the matrix products, on the CPU: the gates and the cell
// of some samples, and the gradients. Loops over plain memory in float, without torch;
// os/vector_set.h picks the widest vectors that the CPU has.
//
// States and cells are [rows, hidden]. Gates are in panels (panel_products.h) of `tile` units:
// panel 4g + i has gate i of the units [g tile, (g + 1) tile), its group. The gates are in torch's
// order: input, forget, cell, output. An error is below 3e-7 of the largest possible value.
//
// Gain: see lstm.h.

#include <cstdint>

namespace dtrain::kernels {

// Row r of a step: c = forget * c_before + input * cell, h = output * tanh(c).
struct LstmStep {
  int64_t hidden = 0, panel = 0;    // panel: how far panels of gates are apart
  float* gates = nullptr;           // sums of products, which become the values of the gates
  const float* c_before = nullptr;  // [rows, hidden]
  float* c = nullptr;               // [rows, hidden]
  float* h = nullptr;               // [rows, hidden]
};

struct LstmStepGradient {
  int64_t hidden = 0, panel = 0;
  const float* gates = nullptr;     // the values of the gates
  const float* c_before = nullptr;  // [rows, hidden]
  const float* c = nullptr;         // [rows, hidden]
  // [rows, hidden], a gradient of h that is added to of_h; nullptr: none
  const float* of_state = nullptr;
  const float* of_h = nullptr;  // [rows, hidden], the gradient of h by later steps
  float* of_c = nullptr;        // [rows, hidden], of c by later steps; becomes that of c_before
  float* of_gates = nullptr;    // gradient of the sums of products, stored in panels
};

// Both compute rows [row, row_end) of a group of units. Others may be computed at the same time.
struct LstmLoops {
  int64_t tile;  // that of panel_loops()
  void (*compute)(const LstmStep&, int64_t group, int64_t row, int64_t row_end);
  void (*differentiate)(const LstmStepGradient&, int64_t group, int64_t row, int64_t row_end);
};
const LstmLoops& lstm_loops();  // thread-safe

}  // namespace dtrain::kernels
