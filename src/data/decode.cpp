#include "data/decode.h"

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::data {

namespace {

class RawDecoder final : public Decoder {
 public:
  std::span<const std::byte> read(const Store& store, int64_t id, std::span<std::byte> pixels) override {
    store.read_input(id, pixels);
    return pixels;
  }
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Store& store) {
  const std::vector<int64_t>& shape = store.schema().input.shape;
  if (shape.size() != 3 || shape[0] < 1 || shape[1] < 1 || shape[2] != 3) {
    std::string text;
    for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
    throw DataError(str(store.path().string(), ": samples of shape [", text,
                        "] are not RGB images [height, width, 3]. Make the file with `dtrain convert`."));
  }
  return std::make_unique<RawDecoder>();
}

}  // namespace dtrain::data
