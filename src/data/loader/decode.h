#pragma once

// Decodes stored bytes to pixels. This interface allows other encodings than raw pixels.
// Thread-safety: one thread at a time; each reader thread has its own decoder, which may own a
// scratch buffer or a library handle.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/store.h"

namespace dtrain::data {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Writes sample `id` to `pixels`, [H, W, 3] uint8. Returns its bytes as stored, which the
  // checksum covers; they are valid until the next call. Throws DataError that names FILE#SAMPLE.
  virtual std::span<const std::byte> read(const Store&, int64_t id,
                                          std::span<std::byte> pixels) = 0;
};

// A decoder for raw pixels, which are read directly into `pixels`. Throws DataError if the samples
// are not RGB images.
std::unique_ptr<Decoder> make_decoder(const Store&);

}  // namespace dtrain::data
