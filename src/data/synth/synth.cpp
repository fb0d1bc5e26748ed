#include "data/synth/synth.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "data/convert/assign_splits.h"
#include "data/convert/parallel.h"
#include "data/synth/layouts.h"
#include "data/synth/scene.h"
#include "data/writer.h"

namespace dtrain::data {
namespace {

constexpr int64_t kPicturesPerPhoto = 4;
constexpr double kTestShare = 0.1;
constexpr int kSmallest = 16, kLargest = 2048;

using Report = std::function<void(int64_t)>;

int default_size(const std::string& layout) { return layout == "300wlp" ? 450 : layout == "biwi" ? 480 : 64; }

void check(const SynthOptions& options) {
  const auto& layouts = synth_layouts();
  if (std::count(layouts.begin(), layouts.end(), options.layout) == 0) {
    throw UsageError(str("unknown layout ", options.layout, ". Known: ", join(layouts, ", ")));
  }
  if (options.samples < 1) throw UsageError(str("--samples ", options.samples, " is not at least 1"));
  if (options.size != 0 && (options.size < kSmallest || options.size > kLargest)) {
    throw UsageError(str("--size ", options.size, " is not between ", kSmallest, " and ", kLargest));
  }
  const bool folder = options.layout != "hdf5";
  if (!std::filesystem::exists(options.out)) return;
  if (folder ? !std::filesystem::is_directory(options.out) || !std::filesystem::is_empty(options.out)
             : !options.force) {
    throw OutputError(str(
        options.out.string(), " exists",
        folder ? " and is not an empty folder. Give another --out" : ". Give another --out, or --force to replace it"));
  }
}

void write_hdf5(const SynthOptions& options, const Report& report, SynthSummary& summary) {
  const Schema schema{.task = "headpose",
                      .input = {Element::kUint8, {summary.size, summary.size, 3}},
                      .target = {Element::kFloat32, {3}},
                      .samples = options.samples,
                      .checksum = 0};
  const auto writer = Writer::create(options.out, schema);
  Writer::Extras extras;
  extras.attributes = {{"source", "synth"},
                       {"seed", std::to_string(options.seed)},
                       {"target_names", "yaw,pitch,roll"},
                       {"target_unit", "degree"}};
  std::vector<std::string> photos;
  for (int64_t i = 0; i < options.samples; ++i) {
    photos.push_back(std::to_string(i / kPicturesPerPhoto));
    extras.group.push_back(i / kPicturesPerPhoto);
    extras.source.push_back(str("photo_", photos.back(), "_", i % kPicturesPerPhoto));
  }
  const std::vector<std::string> chosen = choose_groups(photos, kTestShare, options.seed);
  const std::set<std::string> test(chosen.begin(), chosen.end());
  for (int64_t i = 0; i < options.samples; ++i) {
    extras.splits[test.contains(photos[static_cast<size_t>(i)]) ? "test" : "train"].push_back(i);
  }
  parallel_for(
      options.samples, options.threads,
      [&](int64_t i) {
        const SynthSample sample = synth_sample(options.seed, i, summary.size);
        const float target[] = {static_cast<float>(sample.pose.yaw), static_cast<float>(sample.pose.pitch),
                                static_cast<float>(sample.pose.roll)};
        writer->write(i, std::as_bytes(std::span(sample.image.rgb)), std::as_bytes(std::span(target)));
      },
      report);
  writer->finish(extras);
  summary.groups = extras.group.back() + 1;
  summary.train = static_cast<int64_t>(extras.splits["train"].size());
  summary.test = static_cast<int64_t>(extras.splits["test"].size());
}

}  // namespace

const std::vector<std::string>& synth_layouts() {
  static const std::vector<std::string> layouts{"hdf5", "300wlp", "biwi"};
  return layouts;
}

SynthSample synth_sample(uint64_t seed, int64_t picture, int size) {
  const int64_t photo = picture / kPicturesPerPhoto;
  SynthSample sample{.image = draw_background(seed, photo, size, size), .pose = draw_pose(seed, picture)};
  const Placement place = draw_placement(seed, picture, size, size, 0.36, 0.06);
  render(head_model(draw_person(seed, photo)), sample.pose, place, draw_light(seed, photo), sample.image);
  add_noise(seed, picture, sample.image);
  return sample;
}

SynthSummary synth_headpose(const SynthOptions& options, const std::function<void(int64_t, int64_t)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  check(options);
  SynthSummary summary;
  summary.samples = options.samples;
  summary.size = options.size > 0 ? options.size : default_size(options.layout);
  const Report report = [&](int64_t done) {
    if (progress) progress(done, options.samples);
  };
  if (options.layout == "hdf5") {
    write_hdf5(options, report, summary);
  } else if (options.layout == "300wlp") {
    parallel_for(
        options.samples, options.threads, [&](int64_t i) { write_300wlp(options.out, options.seed, i, summary.size); },
        report);
    summary.groups = lp_name(options.samples - 1).photo + 1;
  } else {
    const int64_t sequences = biwi_sequences(options.samples);
    for (int64_t s = 0; s < sequences; ++s) write_biwi_calibration(options.out, s, summary.size);
    parallel_for(
        options.samples, options.threads,
        [&](int64_t i) { write_biwi(options.out, options.seed, i, sequences, summary.size); }, report);
    summary.groups = sequences;
  }
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace dtrain::data
