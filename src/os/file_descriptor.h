#pragma once

// An open file, closed when its owner goes out of scope, and the loops around system calls that no
// other file has to repeat: a call that a signal interrupted (EINTR) is repeated, and one that
// moved only a part of the bytes goes on.
//
// Failures come back as errno values, not as exceptions, because callers answer them differently:
// fail_to_write() for what dtrain writes, a DataError for a data set, a warning for metrics. No
// method allocates memory.
// Thread-safety: the methods that take an offset may be called from any thread; the others from one
// at a time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace dtrain {

class FileDescriptor {
 public:
  // What a read returns when the file ends before the last byte asked for
  static constexpr int kEndOfFile = -1;

  FileDescriptor() = default;                            // no file
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}  // takes ownership; -1: no file
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  // Does what open(2) does (O_ flags of <fcntl.h>) with O_CLOEXEC; what was open before is closed.
  // Returns 0 or the errno.
  [[nodiscard]] int open(const std::filesystem::path& path, int flags,
                         unsigned mode = 0644) noexcept;
  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }  // for the system calls that have no method here

  // All bytes or an error. Each returns 0 or the errno; a read may return kEndOfFile.
  [[nodiscard]] int write_all(std::span<const std::byte> bytes) const noexcept;
  [[nodiscard]] int write_all_at(std::span<const std::byte> bytes, int64_t offset) const noexcept;
  [[nodiscard]] int read_all(std::span<std::byte> bytes) const noexcept;
  [[nodiscard]] int read_all_at(std::span<std::byte> bytes, int64_t offset) const noexcept;

  // fsync(2). After a failure the data may be lost though a second call succeeds: the file must be
  // given up.
  [[nodiscard]] int sync() const noexcept;
  int close() noexcept;  // 0 or the errno; the descriptor is gone in either case

 private:
  int fd_ = -1;
};

// Throws OutputError: "cannot OPERATION PATH: errno's text", followed by what the user can do about
// it. An operation that creates a file or folder begins with "create": the advice for ENOENT is for
// these alone. `when_full`, if not empty, replaces the advice for a full disk: it can name the
// option that chooses the disk.
[[noreturn]] void fail_to_write(std::string_view operation, const std::filesystem::path& path,
                                int code, std::string_view when_full = {});

// A file that only dtrain writes, such as a lock or a journal: opened for reading and writing, and
// created if needed. Nothing else may be at `path`, because what is written would change another
// file. OutputError if it is a link, has further names (hard links), is not a regular file, or
// cannot be opened.
enum class Names { kOne, kMany };  // kMany: hard links are allowed
FileDescriptor open_own_file(const std::filesystem::path& path, std::string_view operation,
                             Names = Names::kOne, unsigned mode = 0644);
// The same question about a file that is opened later, or by a library. A missing file is right.
void check_own_file(const std::filesystem::path& path, Names = Names::kOne);

}  // namespace dtrain
