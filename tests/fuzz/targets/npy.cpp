#include <span>

#include "core/error.h"
#include "formats/npy.h"
#include "fuzz/target.h"

namespace {

std::string text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::string> dtrain::testing::example_inputs() {
  const std::vector<float> numbers{1, -2.5f, 3e38f, 0, 5, 6};
  const std::vector<int64_t> counts{7, -1, INT64_MAX};
  const std::string whole = text(formats::to_npy(numbers, {2, 3}));
  std::string fortran = whole, halves = whole;
  fortran.replace(fortran.find("False"), 5, "True ");
  halves.replace(halves.find("<f4"), 3, ">f2").replace(halves.find("3)"), 2, "6)");
  return {whole, fortran, halves, text(formats::to_npy(counts, {3})),
          text(formats::to_npy(std::span(counts).first(1), {}))};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const dtrain::formats::NpyArray array =
        dtrain::formats::parse_npy({bytes.begin(), bytes.end()});
    array.header.type();
    array.header.shape_text();
    array.to_float32();
    array.to_int64();
  } catch (const dtrain::DataError&) {
  }
  return 0;
}
