#include "monitoring/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <span>

#include "core/log.h"
#include "text/strings.h"

namespace dtrain::monitoring {

AppendFile::AppendFile(const std::filesystem::path& path) : path_(path) {
  if (const int code = file_.open(path, O_WRONLY | O_CREAT | O_APPEND)) warn("open", code);
}

bool AppendFile::append(std::string_view record) noexcept {
  if (!file_.is_open()) return false;
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  const int code = file_.write_all(std::as_bytes(std::span(record)));
  if (code == 0) return true;
  if (before >= 0 && ::ftruncate(file_.get(), before) != 0) {
    // A pipe or a device cannot be truncated, and does not need to be.
  }
  warn("write", code);
  return false;
}

void AppendFile::warn(const char* operation, int code) noexcept {
  if (warned_) return;
  warned_ = true;
  try {
    log::warning(str("cannot ", operation, " ", path_.string(), ": ", std::strerror(code),
                     ". Training continues; these metrics are lost until it can be written again"));
  } catch (...) {
    // Out of memory: the warning is not worth more than the training.
  }
}

}  // namespace dtrain::monitoring
