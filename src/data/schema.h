#pragma once

// What the samples of a data set are: element types and shapes of the input and the target of one sample.
// docs/file_formats.md says how they are stored. Plain values.

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::data {

enum class Element { kUint8, kFloat32, kInt64 };
int64_t size_of(Element);  // bytes
std::string name_of(Element);

// A first dimension of kVariable: samples differ in their number of rows.
inline constexpr int64_t kVariable = -1;

// The input or the target of one sample, C order, little endian.
struct Field {
  Element element = Element::kUint8;
  // {H, W, 3} image; {kVariable, F} sequence or set; {T} fixed targets; {} one number (a class); {kVariable} an order
  std::vector<int64_t> shape;
  bool variable() const { return !shape.empty() && shape[0] == kVariable; }
  int64_t row_elements() const;  // variable: of one row; fixed: of the whole sample
  int64_t row_bytes() const;
  bool operator==(const Field&) const = default;
};

std::string text_of(const Field&);  // "float32 [rows, 8]"

// What a file may hold. Inputs: uint8 {H, W, 3}; float32 {F}, {T, F} or {kVariable, F}. Targets: float32 or int64 {} or
// {T}; int64 {kVariable}. No dimension is 0.
bool storable_input(const Field&);
bool storable_target(const Field&);

struct Schema {
  std::string task;
  Field input, target;
  int64_t samples = 0;
  uint64_t checksum = 0;  // of the whole file's samples: identifies the data set
};

}  // namespace dtrain::data
