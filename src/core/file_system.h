#pragma once

// The file operations whose failure must lose nothing, behind one seam: the checkpoint store and all atomic writes go
// through it, and tests put a file system there that fails the k-th call or fills up.
// Errors: OutputError with the path, the operation and errno's text (a full disk says so).
// Thread-safety: the real one may be used from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates or replaces `path` with `bytes` and fsyncs it. Not atomic by itself.
  virtual void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) = 0;
  virtual void sync_folder(const std::filesystem::path& folder) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual void create_folders(const std::filesystem::path& folder) = 0;
  virtual void remove_all(const std::filesystem::path& path) = 0;
};

FileSystem& real_file_system();

// The real file system for a process that is watched, so that a slow disk is not taken for one that hangs. `moved` is
// called on the calling thread after each operation, and within a long write each time that `piece_bytes` more have
// reached the disk itself: a write is quick until the disk's cache is full, and then the fsync takes long.
std::unique_ptr<FileSystem> make_moving_files(std::function<void()> moved, int64_t piece_bytes = int64_t{64} << 20);

// Either the old or the new content is there, whole, whatever happens: temporary name, fsync, rename, fsync of the
// folder.
void write_atomically(FileSystem& files, const std::filesystem::path& path, std::string_view text);

// Before work begins whose result goes to `path`. Throws OutputError if that is a folder, or, without `replace`, a file
// that exists. A device or a pipe is neither.
void check_output(const std::filesystem::path& path, bool replace);
// The same for a file that is made under another name and renamed to `path`: that would put an end to a device or a
// pipe, so that they are refused too.
void check_new_file(const std::filesystem::path& path, bool replace);
// Where the symbolic links at `path` lead, be anything there or not: a file renamed to `path` would replace the link.
std::filesystem::path link_target(std::filesystem::path path);

std::string read_text(const std::filesystem::path& path);  // throws Error when it cannot be read

}  // namespace dtrain
