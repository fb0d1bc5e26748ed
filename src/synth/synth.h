#pragma once

// Generates data with exactly known answers for each task, as a dtrain HDF5 file (ready for
// training) or in a raw layout of real data (to test the converters), as catalog::Generated says:
//   kHeads      hdf5 | 300wlp | biwi    shaded heads on clutter (scene.h)
//   kScenes     hdf5 | images           shapes and textures on clutter (class_scene.h)
//   kSets       hdf5 | npz              sets with an order (pointer_rule.h)
//   kSequences  hdf5 | npy              waves with different dynamics (dynamics.h)
// The result is a function of all options except `threads`. Converting the layouts images (at its
// own size), npz and npy gives the same samples as the layout hdf5. Errors: UsageError (an option
// out of range), OutputError (not writable, disk full, `out` exists and `force` is false).

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "convert/head_pose.h"
#include "core/parallel.h"
#include "formats/image.h"

namespace dtrain::synth {

inline constexpr int64_t kLongestSet = 1000;
inline constexpr int kSmallestPicture = 16, kLargestPicture = 2048;  // height in pixels

struct SynthOptions {
  std::string layout = "hdf5";
  std::filesystem::path out;                      // a file for hdf5 and npz, otherwise a folder
  std::optional<int64_t> samples = std::nullopt;  // nullopt: the default of the task (catalog.h)
  // Headpose, classify: height in pixels; 0: 64 (hdf5, images), 450 (300wlp), 480 (biwi)
  int size = 0;
  uint64_t seed = 1;
  int threads = 0;          // 0: number of cores this process may use
  bool force = false;       // replace an existing file
  int64_t max_length = 10;  // pointer: largest number of elements of a set
};

struct SynthSummary {
  int64_t samples = 0, groups = 0;
  std::map<std::string, int64_t> splits;  // samples by split, if the layout has splits
  int size = 0;
  double seconds = 0;
};

std::vector<std::string> synth_tasks();  // the tasks with generated data, sorted by name
// Throws UsageError with the nearest name
const catalog::TaskEntry& synth_task(const std::string& name);

// Calls `progress` on the calling thread several times a second and at the end of each stage
// (measuring, drawing), and passes on its exceptions. After any exception, nothing remains of the
// incomplete output.
SynthSummary synth(const std::string& task, const SynthOptions&,
                   const ReportProgress& progress = {});

// One picture of headpose's layout hdf5. Pictures 4n to 4n + 3 share the person, light and
// background of one photo.
inline constexpr int64_t kPicturesPerPhoto = 4;
struct SynthSample {
  formats::Image image;
  convert::HeadPose pose;
};
SynthSample synth_sample(uint64_t seed, int64_t picture, int size);

}  // namespace dtrain::synth
