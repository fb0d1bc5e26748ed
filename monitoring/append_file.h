#pragma once

// A file that grows by whole records. A record that does not fit (a full disk) is cut off again, so that what is in the
// file stays readable; the first failure is said once, and the next records are tried all the same. Never throws.

#include <filesystem>
#include <string_view>

#include "core/file_descriptor.h"

namespace dtrain::monitoring {

class AppendFile {
 public:
  explicit AppendFile(const std::filesystem::path& path);

  bool append(std::string_view record) noexcept;  // false: not written
  bool warned() const { return warned_; }

 private:
  void warn(const char* operation, int code) noexcept;

  std::filesystem::path path_;
  FileDescriptor file_;
  bool warned_ = false;
};

}  // namespace dtrain::monitoring
