#include "os/file_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain {
namespace {

// Runs the system call until no signal interrupts it. Returns what it returns.
template <typename Call>
auto uninterrupted(const Call& call) noexcept {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Call(span) moves some of the bytes, from the first on; repeated until all are moved.
template <typename Byte, typename Call>
int move_all(std::span<Byte> bytes, const Call& call) noexcept {
  while (!bytes.empty()) {
    const ssize_t moved = uninterrupted([&] { return call(bytes); });
    if (moved < 0) return errno;
    if (moved == 0) return std::is_const_v<Byte> ? EIO : FileDescriptor::kEndOfFile;
    bytes = bytes.subspan(static_cast<size_t>(moved));
  }
  return 0;
}

void refuse_other_files(const std::filesystem::path& path, const struct stat& status, Names names) {
  std::string what;
  if (S_ISLNK(status.st_mode)) {
    what = "is a symbolic link";
  } else if (S_ISREG(status.st_mode) && status.st_nlink > 1 && names == Names::kOne) {
    what = str("has ", status.st_nlink, " names (hard links)");
  } else if (!S_ISREG(status.st_mode)) {
    what = "is not a regular file";
  }
  if (what.empty()) return;
  throw OutputError(str(path.string(), " ", what,
                        ", but dtrain writes only to a file of its own here: remove it"));
}

}  // namespace

FileDescriptor::~FileDescriptor() { close(); }

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

int FileDescriptor::open(const std::filesystem::path& path, int flags, unsigned mode) noexcept {
  close();
  fd_ = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
  return fd_ < 0 ? errno : 0;
}

int FileDescriptor::write_all(std::span<const std::byte> bytes) const noexcept {
  return move_all(bytes, [&](std::span<const std::byte> rest) {
    return ::write(fd_, rest.data(), rest.size());
  });
}

int FileDescriptor::write_all_at(std::span<const std::byte> bytes, int64_t offset) const noexcept {
  const std::byte* const start = bytes.data();
  return move_all(bytes, [&](std::span<const std::byte> rest) {
    return ::pwrite(fd_, rest.data(), rest.size(), offset + (rest.data() - start));
  });
}

int FileDescriptor::read_all(std::span<std::byte> bytes) const noexcept {
  return move_all(bytes,
                  [&](std::span<std::byte> rest) { return ::read(fd_, rest.data(), rest.size()); });
}

int FileDescriptor::read_all_at(std::span<std::byte> bytes, int64_t offset) const noexcept {
  const std::byte* const start = bytes.data();
  return move_all(bytes, [&](std::span<std::byte> rest) {
    return ::pread(fd_, rest.data(), rest.size(), offset + (rest.data() - start));
  });
}

int FileDescriptor::sync() const noexcept {
  return uninterrupted([&] { return ::fsync(fd_); }) != 0 ? errno : 0;
}

int FileDescriptor::close() noexcept {
  if (fd_ < 0) return 0;
  // Not repeated after EINTR: Linux has closed the descriptor by then, and another thread may have
  // been given it.
  return ::close(std::exchange(fd_, -1)) != 0 && errno != EINTR ? errno : 0;
}

void fail_to_write(std::string_view operation, const std::filesystem::path& path, int code,
                   std::string_view when_full) {
  std::string_view advice;
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      advice = "free some space, or write to another disk";
      break;
    case EFBIG:
      advice = "raise the limit (ulimit -f), or choose a file system for files of this size";
      break;
    case EACCES:
    case EROFS:
    case EPERM:
      advice = "choose a folder that you may write to";
      break;
    case ENOENT: {
      if (!operation.starts_with("create")) break;  // what was there is gone
      // In /proc and its like nothing can be created, though the folder is there.
      std::error_code unknown;
      const bool possible =
          operation != "create folder" && !std::filesystem::exists(path.parent_path(), unknown);
      advice = possible ? "create its folder first"
                        : "nothing can be created there: choose another folder";
      break;
    }
    case EPIPE:
      advice = "its reader is gone";
      break;
    default:
      break;
  }
  if (!when_full.empty() && (code == ENOSPC || code == EDQUOT)) advice = when_full;
  throw OutputError(str("cannot ", operation, " ", path.string(), ": ", std::strerror(code),
                        advice.empty() ? "" : ": ", advice));
}

FileDescriptor open_own_file(const std::filesystem::path& path, std::string_view operation,
                             Names names, unsigned mode) {
  check_own_file(path, names);
  FileDescriptor file;
  // O_NONBLOCK and the second check: what is there may have been replaced just now.
  if (const int code = file.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode)) {
    fail_to_write(operation, path, code);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_to_write(operation, path, errno);
  refuse_other_files(path, status, names);
  return file;
}

void check_own_file(const std::filesystem::path& path, Names names) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) refuse_other_files(path, status, names);
}

}  // namespace dtrain
