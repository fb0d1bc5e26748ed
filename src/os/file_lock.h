#pragma once

// An exclusive lock on a file (flock), so that only one process at a time does what the file stands
// for: train a run, write a conversion. The kernel releases the lock when the process ends, in
// whatever way. The file itself stays; its text names the process that holds the lock, or held
// it last.
// Thread-safety: none.

#include <filesystem>
#include <string>

#include "os/file_descriptor.h"

namespace dtrain {

class FileLock {
 public:
  FileLock() = default;  // holds nothing
  // Creates the file if needed and takes the lock, for which it waits half a second at most. Throws
  // OutputError if another FileLock holds it, in this process or another ("IN_USE (process 12 on
  // HOST): ADVICE"), or if the file cannot be opened or is a link to another one (open_own_file).
  // On a file system without locks it warns and holds only the file.
  FileLock(const std::filesystem::path& path, const std::string& in_use, const std::string& advice);

  // Whether `path` still leads to the file that was opened. False if it or a folder above it was
  // removed, moved, or made again by another program; true if that is not known now.
  bool is_at(const std::filesystem::path& path) const;

 private:
  FileDescriptor file_;
};

// Whether a FileLock on `path` is held, by any process. False if there is no such file, or if that
// cannot be known. It does not write, and holds the lock itself only for the time of a system call,
// which FileLock waits for.
bool is_locked(const std::filesystem::path& path);

// Whether no process holds a FileLock on `path`. False if there is no such file, or if that cannot
// be known.
bool is_free(const std::filesystem::path& path);

// "process 12 on HOST": which process holds the lock, or held it last. "" if the file does not say.
std::string holder_of(const std::filesystem::path& path);

}  // namespace dtrain
