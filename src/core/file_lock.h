#pragma once

// One process at a time: an exclusive lock (flock) on a file of its own, which the kernel takes back when the process
// ends, however it ends. The file stays; it says who holds it, or held it last.
// Thread-safety: none.

#include <filesystem>
#include <string>

namespace dtrain {

class FileLock {
 public:
  FileLock() = default;  // holds nothing
  // Takes it at once or not at all. OutputError when another holds it, in this process too: "IN_USE (process 12 on
  // HOST): ADVICE"; and when the file cannot be made. Where the file system knows no locks: a warning, and nothing
  // held.
  FileLock(const std::filesystem::path& file, const std::string& in_use, const std::string& advice);
  ~FileLock();
  FileLock(FileLock&&) noexcept;
  FileLock& operator=(FileLock&&) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace dtrain
