#include "tasks/samples.h"

#include <utility>

#include "core/error.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/unicode.h"

namespace dtrain::tasks {

data::SampleSpec image_samples(const config::Config& config) {
  const config::Augment& augment = config.augment;
  data::SampleSpec spec;
  spec.kind = data::SampleSpec::Kind::kImage;
  spec.image_size = config.model.image_size;
  spec.hflip = augment.hflip;
  spec.crop_scale = static_cast<float>(augment.crop_scale);
  spec.crop_ratio = static_cast<float>(augment.crop_ratio);
  spec.brightness = static_cast<float>(augment.brightness);
  spec.contrast = static_cast<float>(augment.contrast);
  spec.saturation = static_cast<float>(augment.saturation);
  spec.hue = static_cast<float>(augment.hue);
  return spec;
}

data::SampleSpec row_samples(const config::Config& config) {
  data::SampleSpec spec;
  spec.kind = data::SampleSpec::Kind::kRows;
  spec.length_window = config.data.length_window;
  return spec;
}

Metadata image_metadata(const data::SampleSpec& spec) {
  return {{"image_size", str(spec.image_size)},
          {"mean", str(spec.mean[0], ",", spec.mean[1], ",", spec.mean[2])},
          {"std", str(spec.std[0], ",", spec.std[1], ",", spec.std[2])}};
}

at::Tensor ids_of(const data::Batch& batch) {
  return batch.sample_ids.defined() ? batch.sample_ids
                                    : layers::ids_on(batch.inputs.device(), batch.ids);
}

layers::RandomContext draws_of(const data::Batch& batch, uint64_t seed) {
  if (const layers::RandomContext* current = layers::current_random_context()) return *current;
  return layers::random_context(seed, /*step=*/0, ids_of(batch), batch.epoch);
}

const data::Schema& schema_of(const data::Store& store, std::string_view task) {
  const data::Schema& schema = store.schema();
  if (schema.task == task) return schema;
  throw DataError(str(store.origin().path().string(), " holds samples of task '", schema.task,
                      "', not ", task, ": `--task ", schema.task, "` trains on it"));
}

void check_targets(const data::Store& store, const catalog::Numbers& numbers) {
  for (const auto& [attribute, expected] : {std::pair("target_names", join(numbers.names, ",")),
                                            std::pair("target_unit", numbers.unit)}) {
    const std::string found = store.origin().attribute(attribute);
    if (found.empty() || found == expected) continue;
    throw DataError(str(store.origin().path().string(), " says in `", attribute,
                        "` that its targets are ", printable(found), "; the task needs ", expected,
                        ": convert them"));
  }
}

std::vector<int64_t> class_numbers(const data::Store& store,
                                   const std::vector<std::string>& known) {
  const std::vector<std::string> names = data::class_names(store.origin());
  if (names == known) return {};
  std::vector<int64_t> numbers;
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    const size_t found = find_name(name, known);
    if (found == known.size()) unknown.push_back(name);
    numbers.push_back(static_cast<int64_t>(found));
  }
  if (!names.empty() && unknown.empty()) return numbers;
  throw DataError(str(store.origin().path().string(),
                      names.empty() ? " has no classes" : " has the classes " + join(names, ", "),
                      "; the network knows ", join(known, ", "),
                      unknown.empty() ? ""
                                      : ", but not " + join(unknown, ", ") +
                                            look_alike_among(unknown.front(), known),
                      ": `dtrain convert --classes RUN` takes its names"));
}

}  // namespace dtrain::tasks
