#include "core/file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
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

class RealFileSystem : public FileSystem {
 public:
  void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "create");
    while (!bytes.empty()) {
      const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        fail("write", path, errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    // After a failed fsync the data may be gone though a retry succeeds (fsyncgate): the file is given up.
    if (::fsync(file.get()) != 0) fail("fsync", path, errno);
    if (file.close() != 0) fail("close", path, errno);
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

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
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

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf() || in.peek() == EOF)) throw Error(str("cannot read ", path.string()));
  return text.str();
}

}  // namespace dtrain
