#pragma once

// Memory that the ranks of one host share: one file in memory, in which each rank has a part of the
// same size, mapped whole by every rank. The file has no name that outlives the start: it is a
// memfd that the others open through /proc/PID/fd, or, where a process may not look into another
// one (other pid namespaces, hidepid), a file in /dev/shm that is removed as soon as all ranks have
// mapped it. So nothing is left when ranks are killed.
//
// Pages of a memfd come when they are touched, like those of other memory. /dev/shm may be smaller
// than what is mapped, which would be a SIGBUS much later: there each rank takes its pages at once.
// The file holds a lock while it has a name, so that one whose maker was killed in between is known
// as a leftover, and removed by the next one.
//
// Memory that the host or its control group does not have would end a process much later, too: it
// is compared with what can be used now.
//
// Errors: DeviceError on every rank if it fails on any. Thread-safety: none needed; it does
// not change.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "dist/communicator.h"

namespace dtrain::dist {

// A new memfd of no size, which the next program does not inherit. -1 and errno: there is none.
int make_memfd();

struct SharedMemoryOptions {
  int (*make_unnamed)() = make_memfd;         // the file that is tried first
  std::filesystem::path folder = "/dev/shm";  // where the second one is made; empty: none
  // Where the files of Linux are that tell how much memory can be used
  std::filesystem::path root = "/";
  std::vector<int> names = {};  // the ranks, as messages call them; empty: by their own numbers
  // Who waits is a thread beside others that compute, and leaves them its core sooner
  bool beside_compute = false;

  int name_of(int rank) const { return names.empty() ? rank : names[static_cast<size_t>(rank)]; }
};

class SharedSegment {
 public:
  // `bytes` for each rank of `comm`, all of which must be on one host; zeros. Collective.
  SharedSegment(Communicator& comm, int64_t bytes, const SharedMemoryOptions& options);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* part(int rank) const { return base_ + rank * stride_; }  // begins at a page
  int64_t stride() const { return stride_; }                          // from one part to the next

 private:
  std::byte* base_ = nullptr;
  int64_t stride_ = 0, bytes_ = 0;
};

}  // namespace dtrain::dist
