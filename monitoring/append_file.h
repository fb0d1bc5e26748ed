#pragma once

// A file that grows by whole records. A record that does not fit (a full disk) is cut off again, so that what is in the
// file stays readable; the first failure is said once, and the next records are tried all the same. Never throws.

#include <filesystem>
#include <string_view>

namespace dtrain::monitoring {

class AppendFile {
 public:
  explicit AppendFile(const std::filesystem::path& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  bool append(std::string_view record) noexcept;  // false: not written
  bool warned() const { return warned_; }

 private:
  void warn(const char* operation, int code) noexcept;

  std::filesystem::path path_;
  int fd_ = -1;
  bool warned_ = false;
};

}  // namespace dtrain::monitoring
