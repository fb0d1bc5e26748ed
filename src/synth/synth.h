#pragma once

// Generated data whose right answers are known exactly, for each task, as dtrain HDF5 (to train at once) or in the raw
// layout of the real thing (to try the converters and everything behind them):
//   headpose   hdf5 | 300wlp | biwi    shaded heads on clutter (scene.h)
//   classify   hdf5 | images           forms and textures on clutter (class_scene.h)
//   pointer    hdf5 | npz              sets with an order to be found (pointer_rule.h)
//   sequence   hdf5 | npy              waves that move in different ways (dynamics.h)
// Everything is a function of the options but for threads: equal options give equal files, and a raw layout converted
// (images: at its own size) gives the samples of the hdf5 one. Errors: UsageError (an option out of range), OutputError
// (not writable, disk full, `out` exists and `force` is false).

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

struct SynthOptions {
  std::string layout = "hdf5";
  std::filesystem::path out;                      // a file for hdf5 and npz, else a folder
  std::optional<int64_t> samples = std::nullopt;  // none: the default of the task (catalog.h)
  int size = 0;  // headpose, classify: height in pixels; 0: 64 (hdf5, images), 450 (300wlp), 480 (biwi)
  uint64_t seed = 1;
  int threads = 0;          // 0: as many as the cores this process may use
  bool force = false;       // replace an existing file
  int64_t max_length = 10;  // pointer: sets of 3 to so many elements
};

struct SynthSummary {
  int64_t samples = 0, groups = 0;
  std::map<std::string, int64_t> splits;  // samples by split, where the layout says them
  int size = 0;
  double seconds = 0;
};

std::vector<std::string> synth_tasks();                    // the tasks with generated data, sorted by name
const catalog::Task& synth_task(const std::string& name);  // UsageError with the nearest name if it is none of them

// `progress` is called on the calling thread several times a second and at the end of each stage (measuring, drawing).
// Errors: UsageError, OutputError, what `progress` throws; then nothing is left of what was begun.
SynthSummary synth(const std::string& task, const SynthOptions&, const ReportProgress& progress = {});

// One picture of headpose's hdf5 layout. Pictures 4n to 4n + 3 show one photo's person, light and background.
inline constexpr int64_t kPicturesPerPhoto = 4;
struct SynthSample {
  formats::Image image;
  convert::HeadPose pose;
};
SynthSample synth_sample(uint64_t seed, int64_t picture, int size);

}  // namespace dtrain::synth
