#pragma once

// The arithmetic of layers/teacher_forcing.h. CPU and GPU share it: products and sums are rounded
// one by one, so their draws are identical.
//
// Reason: exactness, not speed. A sample is forced or not by its key alone, on any device and on
// any number of ranks (promise 1 of docs/promises.md). Delete it when LibTorch draws by a key, or
// when no task forces a share of its samples.

#include <cstdint>

#include "core/host_device.h"
#include "core/random.h"
#include "kernels/launch_check.h"

namespace dtrain::kernels {

struct TeacherForcing {
  // The share of samples that use it, in the first and in the last epoch
  double first = 1, last = 1;
  int64_t epochs = 1;
};

// Linear from `first` in epoch 0 to `last` in the last one.
DTRAIN_HD inline double teacher_forcing_ratio(const TeacherForcing& f, int64_t epoch) {
  if (f.epochs <= 1) return f.first;
  const double share = static_cast<double>(epoch < f.epochs ? epoch : f.epochs - 1) /
                       static_cast<double>(f.epochs - 1);
  return f.first + (f.last - f.first) * share;
}

DTRAIN_HD inline bool is_forced(uint64_t seed, int64_t epoch, int64_t sample_id, double ratio) {
  return static_cast<double>(uniform01(keyed(static_cast<uint64_t>(Purpose::kTeacherForcing), seed,
                                             static_cast<uint64_t>(epoch),
                                             static_cast<uint64_t>(sample_id)))) < ratio;
}

// Where a kernel reads what changes between epochs; see DropoutKeyPlace.
struct ForcingPlace {
  const int64_t *seed, *epoch;
  DTRAIN_HD bool draw(const TeacherForcing& f, int64_t sample_id) const {
    return is_forced(static_cast<uint64_t>(*seed), *epoch, sample_id,
                     teacher_forcing_ratio(f, *epoch));
  }
};

// Writes the draws to forced [samples]. ids [samples], forced and the numbers of the place are
// memory of the current device; the kernel is queued on `stream` (a cudaStream_t). DeviceError in a
// build without GPU code.
[[nodiscard]] LaunchResult draw_forced_on_gpu(const TeacherForcing&, const ForcingPlace& place,
                                              const int64_t* ids, int64_t samples, bool* forced,
                                              void* stream);

}  // namespace dtrain::kernels
