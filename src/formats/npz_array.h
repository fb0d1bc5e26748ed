#pragma once

// One array of an .npz file whose elements are read when they are asked for, so that memory does
// not grow with the array: about kMostBytes, or two entries of the first dimension for each core if
// that is more. An array that is not larger, or that has Fortran order, whose samples lie apart, is
// in memory as a whole. Asking for elements in about their order is fast; going back in a
// compressed array is slow.
//
// Errors: DataError from open(), without the file's name. Afterwards Error, with the file's name
// and the exit code of a DataError, if the file was changed or cannot be read any more.
// Thread-safety: all const methods may be called from any thread.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "formats/npy.h"

namespace dtrain::formats {

class NpzArray {
 public:
  static constexpr int64_t kMostBytes = int64_t{16} << 20;

  // Reads the whole array once, so that damage is found before its elements are used. nullptr if
  // there is none.
  static std::unique_ptr<NpzArray> open(const std::filesystem::path& file, const std::string& name);
  ~NpzArray();

  const NpyHeader& header() const;
  uint64_t checksum() const;  // hash of its .npy file
  // Blocks read since open(), also those that were passed: a measure of the time that it took
  int64_t blocks_read() const;
  // `count` elements from element `first`, as those of NpyArray.
  std::vector<float> to_float32(int64_t first, int64_t count) const;
  std::vector<int64_t> to_int64(int64_t first, int64_t count) const;
  std::vector<uint8_t> to_uint8(int64_t first, int64_t count) const;

 private:
  class Reader;
  explicit NpzArray(std::unique_ptr<Reader> reader);
  std::unique_ptr<Reader> reader_;
};

}  // namespace dtrain::formats
