#include "tasks/facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "config/differences.h"
#include "core/error.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kLargestImage = 4096;  // largest model.image_size, in pixels
// The arrays of a user may have larger pictures than a network takes
constexpr int64_t kLargestStored = 1 << 16;

const std::string* find(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

template <typename Number>
Number number(const Metadata& metadata, const std::string& key, Number otherwise) {
  const std::string* text = find(metadata, key);
  if (text == nullptr) return otherwise;
  const std::optional<Number> value = parse_number<Number>(*text);
  if (!value || !(*value >= 0)) {
    throw CheckpointError(str("model.safetensors says ", key, " '", *text, "', which is not a ",
                              std::is_integral_v<Number> ? "count" : "number from 0"));
  }
  return *value;
}

int64_t pixels(const Metadata& metadata, const std::string& key, int64_t otherwise, int64_t most) {
  const auto value = number<int64_t>(metadata, key, otherwise);
  if (find(metadata, key) != nullptr && (value < 1 || value > most)) {
    throw CheckpointError(
        str("model.safetensors says ", key, " ", value, ", which is not from 1 to ", most));
  }
  return value;
}

// "0.485,0.456,0.406": of red, green and blue, where the metadata have it.
void check_colors(const Metadata& metadata, const std::string& key, double above) {
  const std::string* text = find(metadata, key);
  if (text == nullptr) return;
  const std::vector<std::string> parts = split(*text, ',');
  const bool valid = parts.size() == 3 && std::ranges::all_of(parts, [&](const std::string& part) {
                       const std::optional<double> value = parse_number<double>(part);
                       return value && std::isfinite(*value) && *value > above;
                     });
  if (valid) return;
  throw CheckpointError(str("model.safetensors says ", key, " '", *text,
                            "', which is not three numbers",
                            std::isfinite(above) ? str(" above ", above) : ""));
}

const std::string& required(const Metadata& metadata, const std::string& key) {
  const std::string* text = find(metadata, key);
  if (text == nullptr) throw CheckpointError(str("model.safetensors does not say its '", key, "'"));
  return *text;
}

std::vector<std::string> names_in(const std::string& joined) {
  return joined.empty() ? std::vector<std::string>() : split(joined, '\n');
}

}  // namespace

DataFacts facts_of(const data::Store& store, const std::vector<int64_t>& train_ids) {
  DataFacts facts;
  const data::Schema& schema = store.schema();
  facts.classes = data::class_names(store.origin());
  if (schema.input.element == data::Element::kUint8 && schema.input.shape.size() == 3)
    facts.stored_size = std::min(schema.input.shape[0], schema.input.shape[1]);
  if (schema.input.element == data::Element::kFloat32 && !schema.input.shape.empty()) {
    facts.features = schema.input.shape.back();
    facts.longest = schema.input.shape.size() > 1 ? schema.input.shape[0] : 1;
    if (schema.input.variable()) {
      facts.longest = 0;
      for (int64_t id = 0; id < schema.samples; ++id)
        facts.longest = std::max(facts.longest, store.input_rows(id));
    }
  }
  if (schema.input.variable() && !train_ids.empty()) {
    int64_t rows = 0;
    for (const int64_t id : train_ids) rows += store.input_rows(id);
    facts.mean_rows = static_cast<double>(rows) / static_cast<double>(train_ids.size());
  } else if (facts.longest > 0) {
    facts.mean_rows = static_cast<double>(facts.longest);
  }
  if (schema.target.element == data::Element::kInt64 && schema.target.shape.empty() &&
      !facts.classes.empty()) {
    facts.class_counts.assign(facts.classes.size(), 0);
    for (const int64_t id : train_ids) {
      const int64_t label = data::read_target_as<int64_t>(store, id).at(0);
      // A class out of range is reported by the task, with file and sample.
      if (label >= 0 && label < static_cast<int64_t>(facts.classes.size()))
        ++facts.class_counts[static_cast<size_t>(label)];
    }
  }
  return facts;
}

DataFacts facts_of(const Metadata& metadata) {
  DataFacts facts;
  facts.features = number<int64_t>(metadata, "features", 0);
  facts.longest = number<int64_t>(metadata, "longest", 0);
  facts.stored_size = pixels(metadata, "stored_size", 0, kLargestStored);
  if (const std::string* names = find(metadata, "class_names")) facts.classes = names_in(*names);
  return facts;
}

Metadata to_metadata(const DataFacts& facts) {
  Metadata metadata;
  if (facts.features > 0) metadata["features"] = str(facts.features);
  if (facts.longest > 0) metadata["longest"] = str(facts.longest);
  if (facts.stored_size > 0) metadata["stored_size"] = str(facts.stored_size);
  if (!facts.classes.empty()) metadata["class_names"] = join(facts.classes, "\n");
  return metadata;
}

config::Config config_of(const Metadata& metadata) {
  config::Config config;
  config::set(config, "task.name", required(metadata, "task"));
  config::set(config, "model.name", required(metadata, "network"));
  config.model.image_size = pixels(metadata, "image_size", config.model.image_size, kLargestImage);
  check_colors(metadata, "mean", -std::numeric_limits<double>::infinity());
  check_colors(metadata, "std", 0);
  config.model.hidden = number(metadata, "hidden", config.model.hidden);
  config.augment = {
      .hflip = false, .crop_scale = 1, .brightness = 0, .contrast = 0, .saturation = 0, .hue = 0};
  // Evaluations of a sequence network use them as well.
  config.augment.noise = number(metadata, "noise", config.augment.noise);
  config.augment.mask_share = number(metadata, "mask_share", config.augment.mask_share);
  config.augment.mask_span =
      std::clamp<int64_t>(number(metadata, "mask_span", config.augment.mask_span), 1, 1 << 20);
  if (catalog::row(config.task).network_from_file()) {
    config.model.file = required(metadata, "module_file");
    config::set(config, "task.loss", required(metadata, "loss"));
    config::set(config, "task.inputs", required(metadata, "inputs"));
  }
  return config;
}

}  // namespace dtrain::tasks
