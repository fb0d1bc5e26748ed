#pragma once

// The file operations whose failure must lose nothing. The checkpoint store and all atomic writes
// use this interface, so that a test can replace it by a file system that fails at the k-th call or
// is full.
// Errors: OutputError with the operation, the path, errno's text and, where there is any, advice (a
// full disk). Thread-safety: the real file system may be used from any thread.

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
  // Creates or replaces `path` and fsyncs it. Not atomic: a crash can leave a part of the bytes.
  virtual void write_durably(const std::filesystem::path& path,
                             std::span<const std::byte> bytes) = 0;
  virtual void sync_folder(const std::filesystem::path& folder) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual void create_folders(const std::filesystem::path& folder) = 0;  // its parents, too
  // Its parent must exist; it may exist
  virtual void create_folder(const std::filesystem::path& folder) = 0;
  virtual void remove_all(const std::filesystem::path& path) = 0;
  // A reader of what was written has read a piece of it.
  virtual void note_read() {}
};

FileSystem& real_file_system();

// The real file system for a process that a watchdog observes, so that a slow disk is not taken for
// a hang. `moved` is called on the calling thread after each operation, by note_read(), and within
// a long write each time `piece_bytes` more have reached the disk itself: a write is quick until
// the disk's cache is full, and then the fsync takes long. `when_full`: the advice of the error on
// a full disk, as in fail_to_write().
std::unique_ptr<FileSystem> make_moving_files(std::function<void()> moved,
                                              std::string when_full = {},
                                              int64_t piece_bytes = int64_t{64} << 20);

// Writes `text` so that after a crash at any moment `path` has its old content or the new one,
// whole: it is written under a temporary name and then put in place.
void write_atomically(FileSystem& files, const std::filesystem::path& path, std::string_view text);

// The two parts of an atomic write, for a file that is written piece by piece: the name to write
// to, in the folder of `path`, and the last step, which renames the closed and fsynced file to
// `path` and fsyncs the folder. It also calls remove_abandoned() for it.
std::filesystem::path temporary_name(const std::filesystem::path& path);
void put_in_place(FileSystem& files, const std::filesystem::path& temporary,
                  const std::filesystem::path& path);

// Removes the temporary files of `path` that killed processes have left: those of this host, and of
// other hosts, whose processes cannot be seen here, those that were last changed an hour before
// `path` itself.
void remove_abandoned(const std::filesystem::path& path) noexcept;

// To be called before the work whose result goes to `path`. Throws OutputError if `path` is a
// folder, cannot be reached or, without `replace`, is an existing file. Devices and pipes
// are allowed.
void check_output(const std::filesystem::path& path, bool replace);
// The same for a file that is written atomically: the rename would destroy a device or a pipe, so
// they are refused.
void check_new_file(const std::filesystem::path& path, bool replace);
// The path that the symbolic links at `path` lead to, whether or not it exists. An atomic write to
// `path` itself would replace the link.
std::filesystem::path link_target(std::filesystem::path path);

// Whether something is at the path, or at the end of its links. False also where that cannot be
// known (a link to itself, a folder without permission): opening the path says why.
bool is_there(const std::filesystem::path& path);

std::string read_text(const std::filesystem::path& path);  // throws Error when it cannot be read

}  // namespace dtrain
