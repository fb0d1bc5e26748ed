#include "data/hdf5/layout.h"
#include "core/error.h"
#include "data/hdf5/layout_bytes.h"
#include "fuzz/target.h"

namespace {

dtrain::data::Layout layout() {
  using dtrain::data::Element;
  dtrain::data::Layout l;
  l.identity = {.device = 1, .inode = 2, .bytes = 10000, .modified_ns = 3};
  l.schema = {"headpose", {Element::kUint8, {5, 4, 3}}, {Element::kFloat32, {3}}, 6, 7};
  l.inputs = {4096, 360};
  l.targets = {4500, 72};
  l.checksums = l.group = {5000, 48};
  l.source_bytes = {6000, 60};
  l.source_offsets = {6100, 56};
  l.splits = {{"train", {7000, 16}}, {"val", {}}};
  l.attributes = {
      {"format", "dtrain"}, {"version", int64_t{1}}, {"checksum", uint64_t{7}}, {"share", 0.5}};
  return l;
}

}  // namespace

std::vector<std::string> dtrain::testing::example_inputs() {
  data::Layout images = layout(), rows = layout();
  rows.schema.input = {data::Element::kFloat32, {data::kVariable, 3}};
  rows.schema.target = {data::Element::kInt64, {data::kVariable}};
  rows.input_offsets = rows.target_offsets = {8000, 56};
  rows.attributes["class_names"] = "walk\nrun";
  rows.attributes[data::kAttributesChecksum] = data::attributes_checksum(rows.attributes);
  images.other_attributes = {"list"};
  return {data::encode(images), data::encode(rows)};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    dtrain::data::check(
        dtrain::data::decode({reinterpret_cast<const char*>(data), size}, "fuzz.h5"));
  } catch (const dtrain::DataError&) {
  }
  return 0;
}
