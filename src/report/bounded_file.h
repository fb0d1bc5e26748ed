#pragma once

// Reads files of a run folder, which may be anything: a pipe that never ends, terabytes, a file
// that grows meanwhile. No function throws for what it finds; what went wrong comes back in words.
// Thread-safety: pure but for the file system.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace dtrain::report {

struct FileText {
  std::string text;
  // "": none; "is not there", "is not a regular file", "cannot be read: Permission denied"
  std::string problem;
  int64_t size = 0;  // bytes in the whole file when it was opened
  bool missing() const { return problem == "is not there"; }
};

// At most `most` bytes from the end.
FileText read_tail(const std::filesystem::path&, int64_t most);

// A whole file; with more than `most` bytes it is a problem and there is no text.
FileText read_small(const std::filesystem::path&, int64_t most);

// Calls `line` for each line of the file as long as it is now, without its newline; `whole` is
// false for a last line that has none. A line longer than `longest` comes as its first bytes, with
// `whole` false. Of a file of more than `most` bytes the beginning and the end are read, half of
// `most` each, without the lines that are cut there; `skipped` is called between the two. Returns
// the problem, or "".
using OnLine = std::function<void(std::string_view line, bool whole)>;
using OnSkip = std::function<void()>;
std::string read_lines(const std::filesystem::path&, int64_t most, int64_t longest,
                       const OnLine& line, const OnSkip& skipped);

}  // namespace dtrain::report
