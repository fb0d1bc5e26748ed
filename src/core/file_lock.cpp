#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"

namespace dtrain {
namespace {

std::string this_process() {
  char host[HOST_NAME_MAX + 1] = {};
  const bool known = ::gethostname(host, HOST_NAME_MAX) == 0;
  return str("process ", ::getpid(), known ? str(" on ", host) : "");
}

// Best effort: what is written there is only told.
void name_holder(int fd) {
  const std::string text = this_process();
  if (::ftruncate(fd, 0) == 0 && ::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

std::string holder(int fd) {
  char text[HOST_NAME_MAX + 64];
  const ssize_t size = ::pread(fd, text, sizeof text, 0);
  return size > 0 ? str(" (", std::string(text, static_cast<size_t>(size)), ")") : "";
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, const std::string& in_use, const std::string& advice)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw OutputError(str("cannot open ", file.string(), ": ", std::strerror(errno)));
  int result = 0;
  do {
    result = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    name_holder(fd_);
    return;
  }
  const int code = errno;
  const std::string other = holder(fd_);
  ::close(std::exchange(fd_, -1));
  if (code == EWOULDBLOCK) throw OutputError(str(in_use, other, ": ", advice));
  // NFS without its lock service, Lustre mounted without flock.
  log::warning(str("cannot lock ", file.string(), " (", std::strerror(code),
                   "): nothing keeps a second process from writing there at the same time"));
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace dtrain
