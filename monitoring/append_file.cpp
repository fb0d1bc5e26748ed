#include "monitoring/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/log.h"
#include "core/strings.h"

namespace dtrain::monitoring {

AppendFile::AppendFile(const std::filesystem::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) warn("open", errno);
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool AppendFile::append(std::string_view record) noexcept {
  if (fd_ < 0) return false;
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  while (!record.empty()) {
    const ssize_t written = ::write(fd_, record.data(), record.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int code = written < 0 ? errno : EIO;
      if (before >= 0 && ::ftruncate(fd_, before) != 0) {
        // A pipe or a device cannot be cut; there is nothing to mend in one.
      }
      warn("write", code);
      return false;
    }
    record.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void AppendFile::warn(const char* operation, int code) noexcept {
  if (warned_) return;
  warned_ = true;
  try {
    log::warning(str("cannot ", operation, " ", path_.string(), ": ", std::strerror(code),
                     ". Training goes on; these metrics are lost until it can be written again"));
  } catch (...) {
    // Out of memory while composing a warning: the warning is what can be spared.
  }
}

}  // namespace dtrain::monitoring
