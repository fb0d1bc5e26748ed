#include "cli/row_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "os/file_system.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::cli {

namespace fs = std::filesystem;

namespace {

// Also where neither is there yet.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code unknown;
  const auto place = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, unknown), unknown);
  };
  return fs::equivalent(a, b, unknown) || place(a) == place(b);
}

}  // namespace

bool is_standard_output(const fs::path& path) { return path.empty() || path == "-"; }

void check_distinct(const std::vector<NamedOutput>& outputs) {
  for (auto a = outputs.begin(); a != outputs.end(); ++a) {
    for (auto b = a + 1; b != outputs.end(); ++b) {
      if (a->path.empty() || b->path.empty()) continue;
      if (a->path == "-" && b->path == "-") {
        throw UsageError(str(a->flag, " - and ", b->flag,
                             " - both want the standard output: give one of them a file"));
      }
      if (a->path == "-" || b->path == "-" || !is_same_file(a->path, b->path)) continue;
      throw UsageError(str(a->flag, " and ", b->flag, " are the same file, ",
                           printable(b->path.string()), ": give one of them another name"));
    }
  }
}

RowOutput::RowOutput(const fs::path& path, bool replace) : path_(path), replace_(replace) {
  if (is_standard_output(path_)) {
    path_ = "the standard output";
    file_ = FileDescriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!file_.is_open()) fail_to_write("open", path_, errno);
    return;
  }
  check_output(path_, /*replace=*/true);
  std::error_code code;
  const fs::file_status status = fs::status(path_, code);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (const int error = file_.open(path_, O_WRONLY)) fail_to_write("open", path_, error);
    return;
  }
  // Through a link: the file that it leads to is replaced, not the link.
  path_ = link_target(path_);
  // Created here only to see that it can be: a signal during the work would leave it.
  create_temporary();
  remove_temporary();
}

RowOutput::~RowOutput() { remove_temporary(); }

void RowOutput::create_temporary() {
  const fs::path temporary = temporary_name(path_);
  if (const int error = file_.open(temporary, O_WRONLY | O_CREAT | O_EXCL))
    fail_to_write("create", path_, error);
  temporary_ = temporary;
}

void RowOutput::remove_temporary() {
  if (temporary_.empty()) return;
  file_.close();
  ::unlink(temporary_.c_str());
  temporary_.clear();
}

void RowOutput::write(std::string_view text) {
  if (!file_.is_open()) create_temporary();
  if (const int code = file_.write_all(std::as_bytes(std::span(text))))
    fail_to_write("write", path_, code);
}

void RowOutput::close() {
  if (!file_.is_open()) create_temporary();  // nothing was written: an empty file
  // A device or a pipe cannot be synced (EINVAL): only a file is made durable.
  if (!temporary_.empty()) {
    if (const int code = file_.sync()) fail_to_write("fsync", path_, code);
  }
  if (const int code = file_.close()) fail_to_write("close", path_, code);
  if (temporary_.empty()) return;
  check_output(path_, replace_);
  put_in_place(real_file_system(), temporary_, path_);
  temporary_.clear();
}

}  // namespace dtrain::cli
