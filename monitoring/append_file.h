#pragma once

// A file that grows by whole records. A record that does not fit (a full disk) is cut off again, so
// that what is in the file stays readable. The first failure is logged, and later records are
// still tried.

#include <filesystem>
#include <string_view>

#include "os/file_descriptor.h"

namespace dtrain::monitoring {

class AppendFile {
 public:
  // Creates the file if needed; a failure is only logged
  explicit AppendFile(const std::filesystem::path& path);

  bool append(std::string_view record) noexcept;  // false: not written

 private:
  void warn(const char* operation, int code) noexcept;

  std::filesystem::path path_;
  FileDescriptor file_;
  bool warned_ = false;
};

}  // namespace dtrain::monitoring
