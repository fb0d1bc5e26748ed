#pragma once

// The schema of a data set: element types and shapes of the input and the target of one sample.
// Plain values. docs/file_formats.md describes how samples are stored.

#include <cstdint>
#include <string>
#include <vector>

#include "text/named_enum.h"

namespace dtrain::data {

enum class Element { kUint8, kFloat32, kInt64 };
constexpr auto names_of(Element) { return names("uint8", "float32", "int64"); }
int64_t size_of(Element);  // bytes

// A first dimension that says: the number of rows differs between samples.
inline constexpr int64_t kVariable = -1;

// The input or the target of one sample, in C order and little endian.
struct Field {
  Element element = Element::kUint8;
  // {H, W, 3}: image; {kVariable, F}: sequence or set; {T}: fixed number of targets; {}: one
  // number, such as a class; {kVariable}: an order.
  std::vector<int64_t> shape;
  bool variable() const { return !shape.empty() && shape[0] == kVariable; }
  int64_t row_elements() const;  // elements of one row if variable, otherwise of the whole sample
  int64_t row_bytes() const;
  bool operator==(const Field&) const = default;
};

std::string text_of(const Field&);  // "float32 [rows, 8]"

// Whether a file may store such inputs or targets. Inputs: uint8 {H, W, 3}; float32 {F}, {T, F} or
// {kVariable, F}. Targets: float32 or int64 {} or {T}; int64 {kVariable}. A dimension of 0 is
// not storable.
bool storable_input(const Field&);
bool storable_target(const Field&);

struct Schema {
  std::string task;
  Field input, target;
  int64_t samples = 0;
  uint64_t checksum = 0;  // covers all samples; identifies the data set
};

}  // namespace dtrain::data
