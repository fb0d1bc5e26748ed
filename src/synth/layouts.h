#pragma once

// Generated data sets, and the raw layouts in which they are written: class folders of pictures
// (PNG) or sequences (.npy), one .npz file of sets, and heads as published by 300W-LP and BIWI.
// Everything is a function of the arguments alone. Errors: OutputError. Thread-safety: all
// functions may be called from any thread, for different files.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "convert/raw_set.h"

namespace dtrain::synth {

inline constexpr Progress kDrawing{.stage = "drawing"};

// Generated sets, with names, groups, classes and splits as in the raw layout, for a task whose
// samples and targets are of that kind. Samples are drawn when they are read.
std::unique_ptr<convert::RawSet> generated_heads(const catalog::TaskEntry&, uint64_t seed,
                                                 int64_t samples, int size);
std::unique_ptr<convert::RawSet> generated_scenes(const catalog::TaskEntry&, uint64_t seed,
                                                  int64_t samples, int size);
std::unique_ptr<convert::RawSet> generated_sequences(const catalog::TaskEntry&, uint64_t seed,
                                                     int64_t samples);
// `file` is the beginning of the sample names, FILE.npz#i.
std::unique_ptr<convert::RawSet> generated_sets(const catalog::TaskEntry&, uint64_t seed,
                                                int64_t samples, int64_t max_length,
                                                const std::string& file);

// Picture `index` of a 300W-LP folder. Odd pictures are the mirrored versions (in *_Flip) of the
// even pictures before them; a photo has eight pictures.
struct LpName {
  std::string source;  // AFW, HELEN, IBUG, LFPW
  bool flip = false;
  int64_t photo = 0;
  int64_t view = 0;          // _K: 0 to 3
  std::string path() const;  // without extension
};
LpName lp_name(int64_t index);
void write_300wlp(const std::filesystem::path& folder, uint64_t seed, int64_t index, int size);

// BIWI: up to 24 sequences of at least ten frames; consecutive pictures go to consecutive
// sequences. Four people are in two sequences each, as in the original.
int64_t biwi_sequences(int64_t samples);
void write_biwi_calibration(const std::filesystem::path& folder, int64_t sequence, int height);
void write_biwi(const std::filesystem::path& folder, uint64_t seed, int64_t index,
                int64_t sequences, int height);

// `value` in decimal, with leading zeros up to `width` digits: numbers in names that sort in
// their order.
std::string digits(int64_t value, int width);

// Writes each sample to the file with its name under `folder`.
void write_class_folders(const convert::RawSet&, const std::filesystem::path& folder, int threads,
                         const ReportProgress& report);

// Writes the padded form of pointer_file.h, without is_visited. Features beyond a set's length
// are 0.
void write_pointer_npz(const convert::RawSet&, const std::filesystem::path& file,
                       int64_t max_length, int threads, const ReportProgress& report);

}  // namespace dtrain::synth
