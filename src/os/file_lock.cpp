#include "os/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace dtrain {
namespace {

constexpr std::string_view kBeginning = "process ";

// Writes this process into the lock file. A failure is ignored: the text is only for the message of
// another process.
void name_holder(const FileDescriptor& file) {
  const std::string text = str(kBeginning, ::getpid(), " on ", host_name());
  if (::ftruncate(file.get(), 0) == 0)
    static_cast<void>(file.write_all_at(std::as_bytes(std::span(text)), 0));
}

// Whether the file has the text of a lock.
bool is_lock(const std::filesystem::path& path) { return holder_of(path).starts_with(kBeginning); }

std::string holder(const FileDescriptor& file) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(0, size))};
}

// Takes the lock without waiting: 0 or the errno.
int try_once(const FileDescriptor& file, int kind) {
  while (::flock(file.get(), kind | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// is_locked() in another process may hold the lock at this moment, and have to wait for a core.
int take(const FileDescriptor& file, int kind) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
    if (const int code = try_once(file, kind); code != EWOULDBLOCK) return code;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return try_once(file, kind);
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::string& in_use,
                   const std::string& advice) {
  // A backup may have made hard links of the whole folder. Another file than a lock keeps
  // its content.
  const Names names = is_lock(path) ? Names::kMany : Names::kOne;
  file_ = open_own_file(path, "create", names, 0666);
  const int code = take(file_, LOCK_EX);
  if (code == 0) {
    name_holder(file_);
    return;
  }
  if (code == EWOULDBLOCK) {
    const std::string by = holder(file_);
    throw OutputError(
        str(in_use, by.empty() ? "" : str(" (", by, ")"), advice.empty() ? "" : ": ", advice));
  }
  // NFS without its lock service, or Lustre mounted without flock.
  log::warning(str("cannot lock ", path.string(), " (", std::strerror(code),
                   "): nothing keeps a second process from writing there at the same time"));
}

bool FileLock::is_at(const std::filesystem::path& path) const {
  struct stat held {
  }, there{};
  if (::fstat(file_.get(), &held) != 0)
    return errno != ESTALE;  // what NFS says about a file that was removed
  if (::stat(path.c_str(), &there) != 0)
    return errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
  return held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

std::string holder_of(const std::filesystem::path& path) {
  FileDescriptor file;
  return file.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) == 0 ? holder(file) : "";
}

bool is_locked(const std::filesystem::path& path) {
  FileDescriptor file;
  if (file.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) != 0) return false;
  return try_once(file, LOCK_SH) == EWOULDBLOCK;  // closing the file releases the lock
}

bool is_free(const std::filesystem::path& path) {
  FileDescriptor file;
  return file.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) == 0 && try_once(file, LOCK_SH) == 0;
}

}  // namespace dtrain
