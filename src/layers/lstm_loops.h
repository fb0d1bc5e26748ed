#pragma once

// What one step of an LSTM computes beside the matrix products, on the CPU: the gates and the cell of some samples, and
// the gradients. Loops over plain memory, with the widest vectors that the CPU has (core/vector_set.h). No torch.
//
// All arrays are in C order. The gates are in torch's order: input, forget, cell, output. Number is float or double;
// in float an error is below 3e-7 of the largest possible value, in double everything is that of the C library.

#include <cstdint>

namespace dtrain::layers {

// Row r of a step: c = forget * c_before + input * cell, h = output * tanh(c).
template <typename Number>
struct LstmStep {
  int64_t hidden = 0;
  Number* gates = nullptr;           // [rows, 4 hidden]: sums of products, which become the values of the gates
  const Number* c_before = nullptr;  // [rows, hidden]
  Number* c = nullptr;               // [rows, hidden]
  Number* h = nullptr;               // [rows, hidden]
};

template <typename Number>
struct LstmStepGradient {
  int64_t hidden = 0;
  const Number* gates = nullptr;     // [rows, 4 hidden], the values of the gates
  const Number* c_before = nullptr;  // [rows, hidden]
  const Number* c = nullptr;         // [rows, hidden]
  const Number* of_state = nullptr;  // [rows, hidden], a gradient of h that is added to of_h; nullptr: none
  const Number* of_h = nullptr;      // [rows, hidden], the gradient of h by later steps
  Number* of_c = nullptr;            // [rows, hidden], of c by later steps; becomes that of c_before
  Number* of_gates = nullptr;        // [rows, 4 hidden], the gradient of the sums of products
};

// Rows [begin, end). Different rows may be computed at the same time.
template <typename Number>
void compute_lstm_step(const LstmStep<Number>&, int64_t begin, int64_t end);
template <typename Number>
void differentiate_lstm_step(const LstmStepGradient<Number>&, int64_t begin, int64_t end);

}  // namespace dtrain::layers
