#pragma once

// Generated head-pose data whose angles are known exactly: shaded heads on clutter, in the layout of a published data
// set (to try the converters and everything behind them) or as dtrain HDF5 (to train at once). Everything is a function
// of the options but for threads: equal options give equal files. Errors: UsageError (an option out of range),
// OutputError (not writable, disk full, `out` exists and `force` is false).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/convert/head_pose.h"
#include "data/convert/image.h"

namespace dtrain::data {

struct SynthOptions {
  std::string layout = "hdf5";  // hdf5 | 300wlp | biwi
  std::filesystem::path out;    // a file for hdf5, else a folder
  int64_t samples = 4000;       // pictures
  int size = 0;                 // their height in pixels; 0: 64 (hdf5), 450 (300wlp), 480 (biwi)
  uint64_t seed = 1;
  int threads = 0;     // 0: as many as the cores this process may use
  bool force = false;  // hdf5: replace an existing file
};

struct SynthSummary {
  int64_t samples = 0, groups = 0, train = 0, test = 0;  // train and test: hdf5 only
  int size = 0;
  double seconds = 0;
};

const std::vector<std::string>& synth_layouts();

// `progress(done, total)` is called on the calling thread several times a second and at the end.
SynthSummary synth_headpose(const SynthOptions&, const std::function<void(int64_t, int64_t)>& progress = {});

// One picture of the hdf5 layout. Pictures 4n to 4n + 3 show one photo's person, light and background.
struct SynthSample {
  Image image;
  HeadPose pose;
};
SynthSample synth_sample(uint64_t seed, int64_t picture, int size);

}  // namespace dtrain::data
