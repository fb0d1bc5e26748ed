#include "formats/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::formats {
namespace {

class OpenFile {
 public:
  // O_NONBLOCK, because opening a pipe would otherwise wait for a writer forever.
  explicit OpenFile(const std::filesystem::path& file) : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw DataError(str("cannot be opened: ", std::strerror(errno)));
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  uint64_t size() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) throw DataError(str("cannot be opened: ", std::strerror(errno)));
    if (!S_ISREG(info.st_mode)) throw DataError("not a regular file");
    return static_cast<uint64_t>(info.st_size);
  }

  std::vector<std::byte> read(uint64_t count) const {
    std::vector<std::byte> bytes(count);
    uint64_t done = 0;
    while (done < count) {
      const ssize_t got = ::read(fd_, bytes.data() + done, count - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw DataError(str("cannot be read: ", std::strerror(errno)));
      if (got == 0) throw DataError("became shorter while it was being read");
      done += static_cast<uint64_t>(got);
    }
    return bytes;
  }

 private:
  int fd_;
};

}  // namespace

FileBeginning read_beginning(const std::filesystem::path& file, uint64_t bytes) {
  const OpenFile in(file);
  const uint64_t size = in.size();
  return {.bytes = in.read(std::min(bytes, size)), .file_bytes = size};
}

void check_file_bytes(uint64_t bytes, uint64_t most) {
  if (bytes <= most) return;
  throw DataError(str("a file of ", human_bytes(static_cast<double>(bytes)), "; at most ",
                      human_bytes(static_cast<double>(most)), " are read"));
}

std::vector<std::byte> read_file(const std::filesystem::path& file) {
  const OpenFile in(file);
  const uint64_t size = in.size();
  check_file_bytes(size);
  return in.read(size);
}

}  // namespace dtrain::formats
