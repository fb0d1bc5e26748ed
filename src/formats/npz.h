#pragma once

// NumPy's .npz: a zip archive of .npy files (np.savez stores them, np.savez_compressed deflates them), with zip64 where
// it is needed. Read and written through libzip. An array's memory grows as its bytes come out of the archive; what the
// archive says about sizes is not believed, and nothing is unpacked beyond what the array's own header announces.
// Errors: DataError with the reason, without the file's name; OutputError when writing fails. Thread-safety: an NpzFile
// belongs to one thread at a time.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/npy.h"

namespace dtrain::formats {

class NpzFile {
 public:
  explicit NpzFile(const std::filesystem::path& file);
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  const std::vector<std::string>& names() const {
    return names_;
  }                                                             // of the arrays, without .npy, as the archive has them
  std::optional<NpyArray> read(const std::string& name) const;  // none: no such array

 private:
  struct Archive;
  std::unique_ptr<Archive> archive_;
  std::vector<std::string> names_;
};

// Name -> the bytes of its .npy; stored, not deflated, and without the time: equal arrays give equal files.
void write_npz(const std::filesystem::path& file, const std::map<std::string, std::vector<std::byte>>& arrays);

}  // namespace dtrain::formats
