#include "data/loader/decode.h"

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::data {

namespace {

class RawDecoder final : public Decoder {
 public:
  std::span<const std::byte> read(const Store& store, int64_t id,
                                  std::span<std::byte> pixels) override {
    store.read_input(id, pixels);
    return pixels;
  }
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Store& store) {
  const Field& input = store.schema().input;
  if (input.element != Element::kUint8 || !storable_input(input)) {
    throw DataError(
        str(store.origin().path().string(), ": samples of ", text_of(input),
            " are not RGB images, uint8 [height, width, 3]. Make the file with `dtrain convert`."));
  }
  return std::make_unique<RawDecoder>();
}

}  // namespace dtrain::data
