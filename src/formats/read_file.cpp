#include "formats/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "os/file_descriptor.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

class OpenFile {
 public:
  // O_NONBLOCK, because opening a pipe would otherwise wait for a writer forever.
  explicit OpenFile(const std::filesystem::path& file) {
    if (const int code = file_.open(file, O_RDONLY | O_NONBLOCK)) {
      throw DataError(str("cannot be opened: ", std::strerror(code)));
    }
  }

  uint64_t size() const {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0)
      throw DataError(str("cannot be opened: ", std::strerror(errno)));
    if (!S_ISREG(info.st_mode)) throw DataError("not a regular file");
    return static_cast<uint64_t>(info.st_size);
  }

  std::vector<std::byte> read(uint64_t count) const {
    std::vector<std::byte> bytes(count);
    const int code = file_.read_all(bytes);
    if (code == FileDescriptor::kEndOfFile)
      throw DataError("became shorter while it was being read");
    if (code != 0) throw DataError(str("cannot be read: ", std::strerror(code)));
    return bytes;
  }

 private:
  FileDescriptor file_;
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
