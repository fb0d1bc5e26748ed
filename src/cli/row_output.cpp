#include "cli/row_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/file_system.h"
#include "core/strings.h"

namespace dtrain::cli {

namespace fs = std::filesystem;

RowOutput::RowOutput(const fs::path& path) : path_(path) {
  if (path_.empty() || path_ == "-") {
    path_ = "the standard output";
    fd_ = STDOUT_FILENO;
    return;
  }
  check_output(path_, /*replace=*/true);
  std::error_code code;
  const fs::file_status status = fs::status(path_, code);
  const bool in_place = fs::exists(status) && !fs::is_regular_file(status);
  // Through a link: the file that it leads to is replaced, not the link.
  if (!in_place) path_ = link_target(path_);
  if (!in_place) temporary_ = path_.string() + ".tmp" + std::to_string(::getpid());
  const int flags = in_place ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL;
  fd_ = ::open((in_place ? path_ : temporary_).c_str(), flags | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    temporary_.clear();
    fail("create");
  }
  owned_ = true;
}

RowOutput::~RowOutput() {
  if (owned_ && fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void RowOutput::fail(const char* what) const {
  const int code = errno;
  const char* advice = code == EPIPE                      ? ": its reader has gone"
                       : code == ENOSPC || code == EDQUOT ? ": free some space, or choose another --out"
                       : code == ENOENT                   ? ": make its folder first"
                       : code == EACCES || code == EROFS  ? ": choose a folder that you may write to"
                                                          : "";
  throw OutputError(str("cannot ", what, " ", path_.string(), ": ", std::strerror(code), advice));
}

void RowOutput::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write");
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void RowOutput::close() {
  if (!owned_) return;
  // A device or a pipe cannot be synced (EINVAL): only a file is asked to last.
  if (!temporary_.empty() && ::fsync(fd_) != 0) fail("fsync");
  if (::close(std::exchange(fd_, -1)) != 0) fail("close");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename to");
  temporary_.clear();
  real_file_system().sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

}  // namespace dtrain::cli
