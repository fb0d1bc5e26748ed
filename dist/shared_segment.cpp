#include "dist/shared_segment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "core/check.h"
#include "dist/object_collectives.h"
#include "os/facts.h"
#include "os/file_descriptor.h"

namespace dtrain::dist {
namespace {

constexpr int64_t kPage = 4096;
constexpr const char* kPrefix = "dtrain-";  // file names begin with it

// What rank 0 has made, as the others find it.
struct Offer {
  char path[160] = "";
  uint64_t device = 0, inode = 0;  // a path of /proc/PID can lead to a file of another process
  int error = 0;
};

// How it went on one rank.
struct Outcome {
  char operation[24] = "";
  int error = 0;
};

struct Attempt {
  std::byte* base = nullptr;
  std::string failure;  // message of the lowest rank that failed; empty: all have mapped the file
  bool no_room = false;
};

Offer identified(const FileDescriptor& file, const std::string& path) {
  Offer offer;
  struct stat info {};
  if (path.size() >= sizeof offer.path) {
    offer.error = ENAMETOOLONG;
  } else if (::fstat(file.get(), &info) != 0) {
    offer.error = errno;
  }
  std::memcpy(offer.path, path.data(), std::min(path.size(), sizeof offer.path - 1));
  offer.device = info.st_dev;
  offer.inode = info.st_ino;
  return offer;
}

// Removes the files whose makers were killed before they could: no process holds their locks.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code ended;
  for (std::filesystem::directory_iterator entry(folder, ended), end; !ended && entry != end;
       entry.increment(ended)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    FileDescriptor file;
    struct stat info {};
    if (file.open(entry->path(), O_RDWR | O_NOFOLLOW | O_NONBLOCK) != 0) continue;
    if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
      continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

// Makes a file with a new name, and holds its lock until `file` is closed.
int make_locked(const std::string& path, FileDescriptor& file) {
  if (const int error = file.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600)) return error;
  struct stat info {};
  if (::flock(file.get(), LOCK_EX) != 0 || ::fstat(file.get(), &info) != 0) return errno;
  // Another job took it for a leftover before it was locked
  return info.st_nlink == 0 ? EAGAIN : 0;
}

// A file of no size. Only this process has it: another can open it only by the path in the offer.
Offer make_file(const SharedMemoryOptions& options, bool named, FileDescriptor& file) {
  Offer failed;
  if (!named) {
    file = FileDescriptor(options.make_unnamed());
    if (file.is_open()) return identified(file, str("/proc/", ::getpid(), "/fd/", file.get()));
    failed.error = errno;
    return failed;
  }
  remove_leftovers(options.folder);
  std::string path;
  failed.error = EAGAIN;
  for (int attempt = 0; attempt < 10 && failed.error == EAGAIN; ++attempt) {
    path = (options.folder / str(kPrefix, ::getpid(), "-", std::random_device()())).string();
    failed.error = make_locked(path, file);
  }
  return failed.error ? failed : identified(file, path);
}

// Opens what rank 0 offers, takes this rank's pages, and maps the whole.
Outcome map_file(const Offer& offer, bool take_pages, int64_t own_begin, int64_t own_bytes,
                 int64_t bytes, std::byte*& base) {
  const auto failed = [](const char* operation, int error) {
    Outcome outcome{.error = error};
    std::strncpy(outcome.operation, operation, sizeof outcome.operation - 1);
    return outcome;
  };
  if (offer.error) return failed("create", offer.error);
  FileDescriptor file;
  if (const int error = file.open(offer.path, O_RDWR)) return failed("open", error);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed("look at", errno);
  if (info.st_dev != offer.device || info.st_ino != offer.inode) return failed("find", ESTALE);
  rlimit limit{};  // largest file size, for memory files too; exceeding it raises a signal
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes)) {
    return failed("enlarge", EFBIG);
  }
  if (take_pages) {
    int error = EINTR;
    while (error == EINTR)
      error = ::posix_fallocate(file.get(), own_begin, own_bytes);  // enlarges the file, too
    if (error) return failed("take room in", error);
  } else if (::ftruncate(file.get(), bytes) != 0) {
    return failed("enlarge", errno);
  }
  void* mapped = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                        file.get(), 0);
  if (mapped == MAP_FAILED) return failed("map", errno);
  // Where the system allows it for shared memory
  ::madvise(mapped, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  base = static_cast<std::byte*>(mapped);
  return {};
}

Attempt attempt(Communicator& comm, const SharedMemoryOptions& options, bool named,
                int64_t stride) {
  const int64_t bytes = stride * comm.size();
  FileDescriptor file;
  Offer offer;
  if (comm.rank() == 0) offer = make_file(options, named, file);
  offer = broadcast_object(comm, offer);
  Attempt result;
  const Outcome mine = map_file(offer, named, comm.rank() * stride, stride, bytes, result.base);
  const std::vector<Outcome> outcomes = all_gather_object(comm, mine);
  if (comm.rank() == 0 && named && !offer.error) ::unlink(offer.path);
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const Outcome& outcome = outcomes[rank];
    if (outcome.error == 0) continue;
    result.failure =
        str("rank ", options.name_of(static_cast<int>(rank)), " cannot ", outcome.operation, " ",
            named ? str("a file in ", options.folder.string())
                  : str("the memory file of rank ", options.name_of(0)),
            ": ", std::strerror(outcome.error));
    result.no_room = outcome.error == ENOSPC;
    break;
  }
  if (!result.failure.empty() && result.base) ::munmap(result.base, static_cast<size_t>(bytes));
  return result;
}

std::string text_of_room(const std::filesystem::path& folder) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  return unknown ? "" : str(" (", human_bytes(static_cast<double>(space.available)), " free)");
}

// The least that any rank says can still be used.
int64_t usable_memory(Communicator& comm, const std::filesystem::path& root) {
  const int64_t mine = os::read_usable_memory(root).value_or(std::numeric_limits<int64_t>::max());
  const std::vector<int64_t> by_rank = all_gather_object(comm, mine);
  return *std::min_element(by_rank.begin(), by_rank.end());
}

}  // namespace

int make_memfd() { return ::memfd_create("dtrain", MFD_CLOEXEC); }

SharedSegment::SharedSegment(Communicator& comm, int64_t bytes,
                             const SharedMemoryOptions& options) {
  stride_ = (std::max<int64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  bytes_ = stride_ * comm.size();
  const std::string wanted = str("the ", comm.size(), " ranks of this host cannot share ",
                                 human_bytes(static_cast<double>(bytes_)), " of memory: ");
  if (const int64_t usable = usable_memory(comm, options.root); usable < bytes_) {
    throw DeviceError(str(
        wanted, "the host and its control group have ", human_bytes(static_cast<double>(usable)),
        " left. Start fewer ranks on this host, or give them more memory (docker and podman: "
        "--memory; Kubernetes: resources.limits.memory; Slurm: --mem)"));
  }
  std::vector<std::string> failures;
  bool no_room = false;
  for (const bool named : {false, true}) {
    if (named && options.folder.empty()) continue;
    const Attempt made = attempt(comm, options, named, stride_);
    if (made.failure.empty()) {
      base_ = made.base;
      return;
    }
    failures.push_back(made.failure);
    no_room = made.no_room;
  }
  const std::string needed = wanted + join(failures, "; ");
  if (!no_room) throw DeviceError(needed + ". Set dist.backend mpi, which is slower");
  throw DeviceError(
      str(needed, text_of_room(options.folder), ". Give ", options.folder.string(),
          " room for the gradients of all ranks (docker and podman: --shm-size; Kubernetes: an "
          "emptyDir with medium: Memory at /dev/shm), or set dist.backend mpi, which is slower"));
}

SharedSegment::~SharedSegment() { ::munmap(base_, static_cast<size_t>(bytes_)); }

}  // namespace dtrain::dist
