#pragma once

// Reads and writes NumPy's .npz files with libzip: zip archives of .npy files, stored (np.savez) or
// deflated (np.savez_compressed), with zip64 if necessary. The sizes in the archive are not
// trusted: an array's memory grows as it is decompressed, and never beyond the size that the
// array's own header declares. An archive with an array twice is refused, because programs differ
// in which one they read. Errors: DataError with the reason, without the file's name; OutputError
// if writing fails. Thread-safety: one thread at a time per NpzFile.

#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/npy.h"
#include "text/strings.h"

namespace dtrain::formats {

class NpzFile {
 public:
  explicit NpzFile(const std::filesystem::path& file);
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  // Names of the arrays without ".npy", in the order of the archive.
  const std::vector<std::string>& names() const { return names_; }
  std::string contents() const;  // "its arrays are a, b", or "it has no arrays at all"
  std::optional<NpyArray> read(const std::string& name) const;  // nullopt if there is no such array
  // What parse_npy_text() makes of the array; likewise
  std::optional<std::vector<std::string>> read_text(const std::string& name) const;
  bool has(const std::string& name) const;

  // Reads the .npy file of an array from its beginning to its end. Errors do not name the array.
  // Requires: the NpzFile outlives it.
  class Member {
   public:
    Member(const NpzFile&, const std::string& name);
    ~Member();
    // Fills `out`, or less of it at the end, where the archive's checksum is compared. Returns the
    // number of bytes.
    size_t read(std::span<std::byte> out);
    bool seek(uint64_t position);  // false, and nothing changes, if the array is compressed

   private:
    struct Open;
    std::unique_ptr<Open> open_;
  };

 private:
  struct Archive;
  // The bytes of the array's .npy file
  std::vector<std::byte> bytes_of(const std::string& name, NpyElements) const;
  std::unique_ptr<Archive> archive_;
  std::vector<std::string> names_;
};

// What `calls` returns. Adds the array's name to the DataErrors that it throws.
template <typename Calls>
auto naming_array(const std::string& name, const Calls& calls) {
  try {
    return calls();
  } catch (const DataError& error) {
    throw DataError(str("its array ", name, ": ", error.what()));
  } catch (const std::bad_alloc&) {
    throw DataError(str("its array ", name, " does not fit into memory"));
  }
}

// Writes arrays by name, each as the bytes of a .npy file. They are stored without compression and
// without time stamps, so that equal arrays give equal files.
void write_npz(const std::filesystem::path& file,
               const std::map<std::string, std::vector<std::byte>>& arrays);

}  // namespace dtrain::formats
