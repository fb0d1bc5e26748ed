#pragma once

// From stored bytes to pixels: the seam behind which samples may be raw (now) or compressed. One decoder per reader
// thread, because a decoder may hold a scratch buffer or a library's handle.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/store.h"

namespace dtrain::data {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Fills `pixels` ([H, W, 3] uint8) with sample `id`. Returns the bytes as stored (what the checksum is of), valid
  // until the next call. Throws DataError naming file#sample.
  virtual std::span<const std::byte> read(const Store&, int64_t id, std::span<std::byte> pixels) = 0;
};

// Raw uint8 goes straight from the file into `pixels`. Throws DataError if samples of this schema are not RGB images.
std::unique_ptr<Decoder> make_decoder(const Store&);

}  // namespace dtrain::data
