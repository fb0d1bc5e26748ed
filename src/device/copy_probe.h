#pragma once

// Copies whose result is compared with what was sent: between two GPUs directly, and from the host
// to a GPU. On some machines (consumer cards, an IOMMU in the way, wrong settings of PCIe switches)
// a direct copy between GPUs arrives damaged or never ends, and then so does every collective of
// NCCL. A build without CUDA has no GPUs to copy between.
//
// Thread-safety: one thread; the functions set its current device.

#include <string>

#include "text/named_enum.h"

namespace dtrain::device {

// kUnsupported: the GPUs cannot reach each other directly, and copies go through the host. kFailed:
// CUDA reported an error. kHangs: the copy did not end in time; the GPU cannot be used by this
// process again, which should end.
enum class CopyResult { kUnsupported, kCorrect, kWrong, kHangs, kFailed };
constexpr auto names_of(CopyResult) {
  return names("unsupported", "correct", "wrong", "hangs", "failed");
}

struct CopyTrial {
  CopyResult result = CopyResult::kUnsupported;
  double bytes_per_second = 0;  // rate of a correct copy
  std::string error;            // kFailed: CUDA's error; kWrong: where the values differ
};

// Copies 16 MiB from the memory of GPU `from` to that of GPU `to` without the host, reads them back
// and compares.
CopyTrial try_peer_copy(int from, int to);

// The rate of copies of 64 MiB from pinned memory to GPU `index`, in bytes per second; 0 if CUDA
// fails. Afterwards the GPU's link has the generation that it has under load.
double host_copy_rate(int index);

}  // namespace dtrain::device
