#include "data/convert/labels.h"

#include "data/convert/pointer_file.h"

namespace dtrain::data {

Schema image_schema(int size) {
  return {.task = "classify",
          .input = {Element::kUint8, {size, size, 3}},
          .target = {Element::kInt64, {}},
          .samples = 0,
          .checksum = 0};
}

Schema sequence_schema(int64_t features) {
  return {.task = "sequence",
          .input = {Element::kFloat32, {kVariable, features}},
          .target = {Element::kInt64, {}},
          .samples = 0,
          .checksum = 0};
}

Schema pointer_schema() {
  return {.task = "pointer",
          .input = {Element::kFloat32, {kVariable, kPointerFeatures}},
          .target = {Element::kInt64, {kVariable}},
          .samples = 0,
          .checksum = 0};
}

std::vector<std::byte> class_target(int64_t label) { return bytes_of(std::vector<int64_t>{label}); }

}  // namespace dtrain::data
