#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/strings.h"

namespace dtrain {
namespace {

constexpr std::string_view kBeginning = "process ";

// Writes this process into the lock file. A failure is ignored: the text is only for the message of another process.
void name_holder(const FileDescriptor& file) {
  const std::string text = str(kBeginning, ::getpid(), " on ", host_name());
  if (::ftruncate(file.get(), 0) == 0) static_cast<void>(file.write_all_at(std::as_bytes(std::span(text)), 0));
}

// Whether the file has the text of a lock.
bool is_lock(const std::filesystem::path& path) {
  FileDescriptor file;
  std::array<char, kBeginning.size()> text{};
  if (file.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) != 0) return false;
  return ::pread(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         std::string_view(text.data(), text.size()) == kBeginning;
}

std::string holder(const FileDescriptor& file) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return size > 0 ? str(" (", std::string(text.data(), static_cast<size_t>(size)), ")") : "";
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::string& in_use, const std::string& advice) {
  // A backup may have made hard links of the whole folder. Another file than a lock keeps its content.
  const Names names = is_lock(path) ? Names::kMany : Names::kOne;
  file_ = open_own_file(path, "create", names, 0666);
  int result = 0;
  do {
    result = ::flock(file_.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    name_holder(file_);
    return;
  }
  const int code = errno;
  if (code == EWOULDBLOCK) throw OutputError(str(in_use, holder(file_), ": ", advice));
  // NFS without its lock service, or Lustre mounted without flock.
  log::warning(str("cannot lock ", path.string(), " (", std::strerror(code),
                   "): nothing keeps a second process from writing there at the same time"));
}

bool FileLock::is_at(const std::filesystem::path& path) const {
  struct stat held {
  }, there{};
  if (::fstat(file_.get(), &held) != 0) return errno != ESTALE;  // what NFS says about a file that was removed
  if (::stat(path.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
  return held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

}  // namespace dtrain
