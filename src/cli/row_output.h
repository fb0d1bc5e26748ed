#pragma once

// Where rows go: the standard output, or a file that appears whole or not at all (temporary name, fsync, rename).
// Errors: OutputError with path and errno's text, also when the reader of a pipe is gone (SIGPIPE must be ignored).
// Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace dtrain::cli {

class RowOutput {
 public:
  // "" or "-": the standard output. A path that is no regular file (/dev/null, a named pipe) is written as it goes.
  explicit RowOutput(const std::filesystem::path& path);
  ~RowOutput();  // without close(): the temporary file is removed, and what was at `path` stays
  RowOutput(const RowOutput&) = delete;
  RowOutput& operator=(const RowOutput&) = delete;

  void write(std::string_view text);
  void close();  // durably in place

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  bool owned_ = false;
};

}  // namespace dtrain::cli
