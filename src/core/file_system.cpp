#include "core/file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/check.h"

namespace dtrain {
namespace {

[[noreturn]] void fail(std::string_view operation, const std::filesystem::path& path, int code) {
  // Which option it is depends on what is written: --run.folder of a run, --out of every other command.
  const char* advice = code == ENOSPC || code == EDQUOT ? ": free some space, or choose another --out or --run.folder"
                       : code == EFBIG ? ": raise the limit (ulimit -f), or choose a file system for files of this size"
                       : code == EACCES || code == EROFS || code == EPERM ? ": choose a folder that you may write to"
                                                                          : "";
  throw OutputError(str("cannot ", operation, " ", path.string(), ": ", std::strerror(code), advice));
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags, std::string_view operation)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail(operation, path, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Creates or replaces `path`; after each piece but the last, which is synced, `moved`.
void write_pieces(const std::filesystem::path& path, std::span<const std::byte> bytes, size_t piece_bytes,
                  const std::function<void()>& moved) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "create");
  size_t in_piece = 0;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), std::min(bytes.size(), piece_bytes - in_piece));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write", path, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    in_piece += static_cast<size_t>(written);
    if (in_piece < piece_bytes || bytes.empty()) continue;
    if (::fdatasync(file.get()) != 0) fail("fsync", path, errno);
    moved();
    in_piece = 0;
  }
  // After a failed fsync the data may be gone though a retry succeeds (fsyncgate): the file is given up.
  if (::fsync(file.get()) != 0) fail("fsync", path, errno);
  if (file.close() != 0) fail("close", path, errno);
}

class RealFileSystem : public FileSystem {
 public:
  void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    write_pieces(path, bytes, std::numeric_limits<size_t>::max(), {});
  }

  void sync_folder(const std::filesystem::path& folder) override {
    const Descriptor handle(folder, O_RDONLY | O_DIRECTORY, "open folder");
    if (::fsync(handle.get()) != 0) fail("fsync folder", folder, errno);
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to, errno);
  }

  void create_folders(const std::filesystem::path& folder) override {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    if (code) fail("create folder", folder, code.value());
  }

  void remove_all(const std::filesystem::path& path) override {
    std::error_code code;
    std::filesystem::remove_all(path, code);
    if (code) fail("remove", path, code.value());
  }
};

class MovingFiles : public FileSystem {
 public:
  MovingFiles(std::function<void()> moved, size_t piece_bytes) : moved_(std::move(moved)), piece_bytes_(piece_bytes) {}

  void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    write_pieces(path, bytes, piece_bytes_, moved_);
    moved_();
  }
  void sync_folder(const std::filesystem::path& folder) override {
    real_file_system().sync_folder(folder);
    moved_();
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    real_file_system().rename(from, to);
    moved_();
  }
  void create_folders(const std::filesystem::path& folder) override {
    real_file_system().create_folders(folder);
    moved_();
  }
  void remove_all(const std::filesystem::path& path) override {
    real_file_system().remove_all(path);
    moved_();
  }

 private:
  const std::function<void()> moved_;
  const size_t piece_bytes_;
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

std::unique_ptr<FileSystem> make_moving_files(std::function<void()> moved, int64_t piece_bytes) {
  DTRAIN_CHECK(moved && piece_bytes > 0);
  return std::make_unique<MovingFiles>(std::move(moved), static_cast<size_t>(piece_bytes));
}

void write_atomically(FileSystem& files, const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = path.string() + ".tmp" + std::to_string(::getpid());
  try {
    files.write_durably(temporary, std::as_bytes(std::span(text)));
    files.rename(temporary, path);
    files.sync_folder(path.has_parent_path() ? path.parent_path() : ".");
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

void check_output(const std::filesystem::path& path, bool replace) {
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  if (std::filesystem::is_directory(status)) throw OutputError(str(path.string(), " is a folder, not a file"));
  if (!replace && std::filesystem::is_regular_file(status)) {
    throw OutputError(str(path.string(), " exists: --force replaces it, another name keeps it"));
  }
}

void check_new_file(const std::filesystem::path& path, bool replace) {
  check_output(path, replace);
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw OutputError(str(path.string(), " is a device or a pipe: a file is made here, under another name until it is ",
                          "whole. Give the name of a file"));
  }
}

std::filesystem::path link_target(std::filesystem::path path) {
  std::error_code code;
  for (int links = 0; links < 40; ++links) {  // as many as Linux follows
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, code))) break;
    path = path.parent_path() / std::filesystem::read_symlink(path, code);  // the latter alone if it is absolute
  }
  return path;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf() || in.peek() == EOF)) throw Error(str("cannot read ", path.string()));
  return text.str();
}

}  // namespace dtrain
