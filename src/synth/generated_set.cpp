#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "convert/assign_splits.h"
#include "convert/head_pose_set.h"
#include "convert/pointer_file.h"
#include "convert/stored_sample.h"
#include "synth/class_scene.h"
#include "synth/dynamics.h"
#include "synth/layouts.h"
#include "synth/pointer_rule.h"
#include "synth/synth.h"
#include "text/strings.h"

namespace dtrain::synth {
namespace {

// A schema, a list of samples, and a function that draws one of them.
class GeneratedSet : public convert::RawSet {
 public:
  using Draw = std::function<convert::Record(int64_t index, int64_t label)>;
  GeneratedSet(const catalog::TaskEntry& task, int64_t width, uint64_t seed, Draw draw)
      : RawSet(task), width_(width), seed_(seed), draw_(std::move(draw)) {}

  const convert::SampleList& samples() const override { return samples_; }
  data::Schema schema() const override { return convert::schema_of(task_, width_); }
  std::vector<std::string> classes() const override { return classes_; }
  convert::Record read(size_t sample) const override {
    return draw_(index_[sample], samples_.label(sample));
  }

  // Adds samples of each class alternately, in folders by split and class, sorted by name.
  void fill_class_folders(int64_t samples, std::vector<std::string> classes,
                          const std::string& suffix) {
    classes_ = std::move(classes);
    const auto label_of = [&](int64_t i) { return i % static_cast<int64_t>(classes_.size()); };
    for (int64_t i = 0; i < samples; ++i) {
      samples_.push_back({.name = digits(i, 6), .group = digits(i, 6), .label = label_of(i)});
    }
    const std::vector<convert::Split> splits = assigned();
    std::vector<std::tuple<std::string, int64_t, convert::Split>> order;  // name, index, split
    for (int64_t i = 0; i < samples; ++i) {
      const convert::Split split = splits[static_cast<size_t>(i)];
      const std::string& folder = classes_[static_cast<size_t>(label_of(i))];
      order.emplace_back(str(split, '/', folder, '/', digits(i, 6), suffix), i, split);
    }
    std::sort(order.begin(), order.end());
    samples_ = {};
    std::vector<convert::Split> sorted;
    for (const auto& [name, i, split] : order) {
      samples_.push_back({.name = name, .group = name, .label = label_of(i)});
      sorted.push_back(split);
      index_.push_back(i);
    }
    samples_.set_splits(std::move(sorted));
  }

  void fill(int64_t samples, const std::function<convert::RawSample(int64_t)>& name) {
    for (int64_t i = 0; i < samples; ++i) {
      samples_.push_back(name(i));
      index_.push_back(i);
    }
    samples_.set_splits(assigned());
  }

 private:
  // The split of each sample. Requires: the samples have their groups and labels.
  std::vector<convert::Split> assigned() const {
    convert::SplitOptions options;
    options.seed = seed_;
    return convert::assign_splits(*this, options);
  }

  int64_t width_;
  uint64_t seed_;
  Draw draw_;
  std::vector<std::string> classes_;
  convert::SampleList samples_;
  std::vector<int64_t> index_;  // for each sample, the index with which it is drawn
};

}  // namespace

std::unique_ptr<convert::RawSet> generated_heads(const catalog::TaskEntry& task, uint64_t seed,
                                                 int64_t samples, int size) {
  auto set = std::make_unique<GeneratedSet>(task, size, seed, [=](int64_t index, int64_t) {
    const SynthSample head = synth_sample(seed, index, size);
    return convert::Record{.input = convert::bytes_of(head.image.rgb),
                           .target = to_target(head.pose)};
  });
  set->fill(samples, [](int64_t i) {
    const int64_t photo = i / kPicturesPerPhoto;
    return convert::RawSample{.name = str("photo_", photo, "_", i % kPicturesPerPhoto),
                              .group = std::to_string(photo)};
  });
  return set;
}

std::unique_ptr<convert::RawSet> generated_scenes(const catalog::TaskEntry& task, uint64_t seed,
                                                  int64_t samples, int size) {
  auto set = std::make_unique<GeneratedSet>(task, size, seed, [=](int64_t index, int64_t label) {
    return convert::Record{
        .input = convert::bytes_of(draw_class_scene(seed, index, label, size).rgb),
        .target = convert::class_target(label)};
  });
  set->fill_class_folders(samples, scene_classes(), ".png");
  return set;
}

std::unique_ptr<convert::RawSet> generated_sequences(const catalog::TaskEntry& task, uint64_t seed,
                                                     int64_t samples) {
  auto set = std::make_unique<GeneratedSet>(
      task, kDynamicsChannels, seed, [=](int64_t index, int64_t label) {
        return convert::Record{.input = convert::bytes_of(draw_dynamics(seed, index, label)),
                               .target = convert::class_target(label)};
      });
  set->fill_class_folders(samples, dynamics_classes(), ".npy");
  return set;
}

std::unique_ptr<convert::RawSet> generated_sets(const catalog::TaskEntry& task, uint64_t seed,
                                                int64_t samples, int64_t max_length,
                                                const std::string& file) {
  auto set = std::make_unique<GeneratedSet>(
      task, convert::kPointerFeatures, seed, [=](int64_t index, int64_t) {
        const PointerSet drawn = draw_pointer_set(seed, index, max_length);
        return convert::Record{.input = convert::bytes_of(drawn.features),
                               .target = convert::bytes_of(drawn.order)};
      });
  set->fill(samples, [&](int64_t i) {
    const std::string name = str(file, '#', i);
    return convert::RawSample{.name = name, .group = std::to_string(i)};
  });
  return set;
}

}  // namespace dtrain::synth
