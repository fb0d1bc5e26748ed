#include "os/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "os/file_descriptor.h"

namespace dtrain {
namespace {

// Asked piece by piece, so that a file of terabytes needs no table of gigabytes.
std::optional<double> cached_share(const FileDescriptor& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
    return std::nullopt;
  constexpr int64_t kPiece = int64_t{1} << 30;
  const int64_t page = ::sysconf(_SC_PAGE_SIZE);
  int64_t pages = 0, cached = 0;
  for (int64_t begin = 0; begin < info.st_size; begin += kPiece) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(kPiece, info.st_size - begin));
    void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), begin);  // reads nothing
    if (map == MAP_FAILED) return std::nullopt;
    std::vector<unsigned char> resident((bytes + static_cast<size_t>(page) - 1) /
                                        static_cast<size_t>(page));
    const int code = ::mincore(map, bytes, resident.data());
    ::munmap(map, bytes);
    if (code != 0) return std::nullopt;
    pages += static_cast<int64_t>(resident.size());
    cached += std::ranges::count_if(resident, [](unsigned char flags) { return (flags & 1) != 0; });
  }
  return static_cast<double>(cached) / static_cast<double>(pages);
}

}  // namespace

std::optional<double> cached_share(const std::filesystem::path& path) {
  FileDescriptor file;
  if (file.open(path, O_RDONLY) != 0) return std::nullopt;
  return cached_share(file);
}

std::optional<double> drop_from_page_cache(const std::filesystem::path& path) {
  FileDescriptor file;
  if (file.open(path, O_RDONLY) != 0) return std::nullopt;
  // What was not written to the disk yet cannot be dropped. A file that is open for reading can
  // be synced.
  static_cast<void>(::fdatasync(file.get()));
  if (::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) != 0) return std::nullopt;
  return cached_share(file);
}

}  // namespace dtrain
