#include "report/bounded_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "os/file_descriptor.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

namespace fs = std::filesystem;

struct Opened {
  FileDescriptor file;
  int64_t size = 0;
  std::string problem;
};

std::string problem_of(int code) {
  if (code == ENOENT || code == ENOTDIR) return "is not there";
  return str("cannot be read: ", std::strerror(code));
}

Opened open(const fs::path& path) {
  Opened opened;
  if (const int code = opened.file.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY); code != 0) {
    opened.problem = problem_of(code);
    return opened;
  }
  struct stat status {};
  if (::fstat(opened.file.get(), &status) != 0) {
    opened.problem = problem_of(errno);
  } else if (!S_ISREG(status.st_mode)) {
    opened.problem = "is not a regular file";
  } else {
    opened.size = status.st_size;
  }
  return opened;
}

// `begin` to `end` of the file, or less where it was cut meanwhile; the problem, or "".
std::string read_range(const Opened& opened, int64_t begin, int64_t end, std::string& text) {
  text.resize(static_cast<size_t>(end - begin));
  const int code = opened.file.read_all_at(std::as_writable_bytes(std::span(text)), begin);
  if (code == 0) return "";
  text.clear();
  return code == FileDescriptor::kEndOfFile ? "was cut while it was read" : problem_of(code);
}

FileText read(const fs::path& path, int64_t most, bool from_end) {
  const Opened opened = open(path);
  FileText result{.text = "", .problem = opened.problem, .size = opened.size};
  if (!result.problem.empty()) return result;
  const int64_t length = std::min(most, opened.size);
  const int64_t begin = from_end ? opened.size - length : 0;
  result.problem = read_range(opened, begin, begin + length, result.text);
  return result;
}

// The lines of a range of the file, as read_lines() gives them; a last one that is cut only at the
// end of the file.
std::string lines_in(const Opened& opened, int64_t begin, int64_t end, int64_t longest,
                     const OnLine& line) {
  constexpr int64_t kPiece = 1 << 20;
  std::string piece, rest;  // rest: of a line that began in an earlier piece
  bool cut = false;         // the line is longer than `longest`: what follows is skipped
  for (int64_t at = begin; at < end; at += kPiece) {
    if (std::string problem = read_range(opened, at, std::min(end, at + kPiece), piece);
        !problem.empty())
      return problem;
    std::string_view left = piece;
    for (size_t newline = left.find('\n'); newline != std::string_view::npos;
         newline = left.find('\n')) {
      if (cut) {
        line(rest, false);
      } else if (rest.empty()) {
        line(left.substr(0, newline), true);
      } else {
        line(rest.append(left.substr(0, newline)), true);
      }
      cut = false;
      rest.clear();
      left.remove_prefix(newline + 1);
    }
    if (static_cast<int64_t>(rest.size() + left.size()) > longest) cut = true;
    if (!cut) rest.append(left);
  }
  if ((cut || !rest.empty()) && end == opened.size) line(rest, false);
  return "";
}

}  // namespace

FileText read_tail(const fs::path& path, int64_t most) {
  return read(path, most, /*from_end=*/true);
}

FileText read_small(const fs::path& path, int64_t most) {
  FileText result = read(path, most, /*from_end=*/false);
  if (result.problem.empty() && result.size > most) {
    result.text.clear();
    result.problem =
        str("has ", human_bytes(static_cast<double>(result.size)), ", which no such file needs");
  }
  return result;
}

std::string read_lines(const fs::path& path, int64_t most, int64_t longest, const OnLine& line,
                       const OnSkip& skipped) {
  const Opened opened = open(path);
  if (!opened.problem.empty()) return opened.problem;
  if (opened.size <= most) return lines_in(opened, 0, opened.size, longest, line);
  const int64_t half = most / 2;
  if (std::string problem = lines_in(opened, 0, half, longest, line); !problem.empty())
    return problem;
  skipped();
  bool first = true;  // which is cut
  std::string problem = lines_in(opened, opened.size - half, opened.size, longest,
                                 [&](std::string_view text, bool whole) {
                                   if (!std::exchange(first, false)) line(text, whole);
                                 });
  if (!problem.empty()) return problem;
  const std::string bytes = human_bytes(static_cast<double>(half));
  return str("has ", human_bytes(static_cast<double>(opened.size)), "; what is between the first ",
             bytes, " and the last ", bytes, " is left out");
}

}  // namespace dtrain::report
