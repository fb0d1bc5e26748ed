#pragma once

// Where rows go: the standard output, or a file that is written atomically (see os/file_system.h).
// Errors: OutputError with path and errno's text, also when the reader of a pipe is gone (SIGPIPE
// must be ignored). Thread-safety: none.

#include <filesystem>
#include <string_view>
#include <vector>

#include "os/file_descriptor.h"

namespace dtrain::cli {

bool is_standard_output(const std::filesystem::path&);  // "" or "-"

// An output of a command, as its user names it: {"--json", "a.json"}. "-": the standard output,
// "": nothing.
struct NamedOutput {
  const char* flag;
  std::filesystem::path path;
};

// UsageError if two of them are one file, which need not exist, or both are the standard output.
void check_distinct(const std::vector<NamedOutput>&);

class RowOutput {
 public:
  // A device or a pipe (/dev/null, a named pipe) is written directly. For a file, sees that it can
  // be created; the temporary file is there from the first write() on. `replace` false: a file that
  // has come there meanwhile stays, and close() fails.
  explicit RowOutput(const std::filesystem::path& path, bool replace = true);
  ~RowOutput();  // without close(), removes the temporary file and leaves `path` as it was
  RowOutput(const RowOutput&) = delete;
  RowOutput& operator=(const RowOutput&) = delete;

  void write(std::string_view text);
  void close();  // puts the file in place, durably

 private:
  void create_temporary();
  void remove_temporary();  // if it is there

  std::filesystem::path path_, temporary_;
  const bool replace_;
  FileDescriptor file_;
};

}  // namespace dtrain::cli
