#pragma once

// Generated data on disk as others publish or keep theirs: as 300W-LP and BIWI do; folders of pictures (PNG) or
// sequences (.npy) by split and class; sets in one .npz file. Errors: OutputError.

#include <cstdint>
#include <filesystem>
#include <string>

#include "convert/raw_set.h"

namespace dtrain::synth {

inline constexpr Progress kDrawing{.stage = "drawing"};

// Picture `index` of a 300W-LP folder: even ones and their mirrored twins in *_Flip by turns, eight pictures a photo.
struct LpName {
  std::string source;  // AFW, HELEN, IBUG, LFPW
  bool flip = false;
  int64_t photo = 0;
  int64_t view = 0;          // _K: 0 to 3
  std::string path() const;  // without suffix
};
LpName lp_name(int64_t index);
void write_300wlp(const std::filesystem::path& folder, uint64_t seed, int64_t index, int size);

// BIWI: up to 24 sequences of at least ten frames, by turns; four people in two sequences each, as in the original.
int64_t biwi_sequences(int64_t samples);
void write_biwi_calibration(const std::filesystem::path& folder, int64_t sequence, int height);
void write_biwi(const std::filesystem::path& folder, uint64_t seed, int64_t index, int64_t sequences, int height);

// Each sample as a file of its name under `folder`.
void write_class_folders(const convert::RawSet&, const std::filesystem::path& folder, int threads,
                         const ReportProgress& report);

// In the padded form of pointer_file.h, without is_visited; features beyond a set's length are 0.
void write_pointer_npz(const convert::RawSet&, const std::filesystem::path& file, int64_t max_length, int threads,
                       const ReportProgress& report);

}  // namespace dtrain::synth
