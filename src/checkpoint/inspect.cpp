#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::checkpoint {
namespace {

std::string line(std::string_view label, const std::string& value) {
  std::string text(label);
  text.resize(12, ' ');
  return text + printable(value) + "\n";
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string summary(const SafetensorsHeader& header) {
  int64_t elements = 0;
  std::set<std::string> dtypes;
  for (const TensorEntry& entry : header.tensors) {
    elements += static_cast<int64_t>(entry.end - entry.begin) / dtype_bytes(entry.dtype);
    dtypes.insert(entry.dtype);
  }
  const std::vector<std::string> names(dtypes.begin(), dtypes.end());
  return str(human_count(static_cast<int64_t>(header.tensors.size())), " tensors, ",
             human_count(elements), " elements", names.empty() ? "" : " of ", join(names, ", "));
}

std::string metadata_lines(const SafetensorsHeader& header) {
  std::string text;
  for (const auto& [name, value] : header.metadata)
    text += line("metadata", str(name, " = ", value));
  return text;
}

struct Layer {
  std::string name;
  std::vector<std::string> tensors;  // "weight [64, 32, 3, 3]"
  int64_t parameters = 0;
};

// The statistics of batch norm are not parameters. A tensor belongs to the layer that its name
// begins with.
std::vector<Layer> layers_of(const SafetensorsHeader& header) {
  std::vector<Layer> layers;
  std::map<std::string, size_t> index;  // position in `layers` of each name
  for (const TensorEntry& entry : header.tensors) {
    const size_t dot = entry.name.rfind('.');
    const std::string own = entry.name.substr(dot == std::string::npos ? 0 : dot + 1);
    if (own == "running_mean" || own == "running_var" || own == "num_batches_tracked") continue;
    const std::string name = dot == std::string::npos ? "-" : entry.name.substr(0, dot);
    const auto [at, is_new] = index.emplace(name, layers.size());
    if (is_new) layers.push_back({.name = name, .tensors = {}});
    Layer& layer = layers[at->second];
    layer.tensors.push_back(own + " " + shape_text(entry.shape));
    layer.parameters += static_cast<int64_t>(entry.end - entry.begin) / dtype_bytes(entry.dtype);
  }
  return layers;
}

std::string layer_lines(const SafetensorsHeader& header) {
  std::string text;
  size_t width = 0;
  int64_t parameters = 0;
  const std::vector<Layer> layers = layers_of(header);
  for (const Layer& layer : layers) width = std::max(width, layer.name.size());
  for (const Layer& layer : layers) {
    std::string count = human_count(layer.parameters);
    count.insert(0, 11 - std::min<size_t>(11, count.size()), ' ');
    text +=
        line("layer", str(padded(layer.name, width), " ", count, "  ", join(layer.tensors, ", ")));
    parameters += layer.parameters;
  }
  return text + line("network", str(human_count(parameters), " parameters in ", layers.size(),
                                    layers.size() == 1 ? " layer" : " layers"));
}

std::string inspect_file(const std::filesystem::path& path) {
  const SafetensorsHeader header = read_header(path);
  std::string text = line(
      "file",
      str(path.string(), ", ", human_bytes(static_cast<double>(std::filesystem::file_size(path)))));
  text += line("holds", summary(header)) + metadata_lines(header);
  size_t width = 0;
  for (const TensorEntry& entry : header.tensors) width = std::max(width, entry.name.size());
  for (const TensorEntry& entry : header.tensors) {
    text += line("tensor", str(padded(entry.name, width), "  ", padded(entry.dtype, 4), "  ",
                               shape_text(entry.shape)));
  }
  return text;
}

}  // namespace

std::string inspect_checkpoint(const std::filesystem::path& path, bool verify,
                               const ReportProgress& report) {
  if (!std::filesystem::is_directory(path)) return inspect_file(path);
  const std::filesystem::path manifest_path = path / kManifestName;
  const Manifest manifest = read_manifest(manifest_path);
  std::string text = line("checkpoint", path.string());
  text += line("step", human_count(manifest.step));
  text += line("world size", std::to_string(manifest.world_size));
  for (const auto& [name, record] : manifest.files) {
    std::string holds;
    if (name.ends_with(".safetensors")) holds = summary(read_header(path / name));
    text +=
        line("file", str(padded(name, 22), " ",
                         padded(human_bytes(static_cast<double>(record.bytes)), 10), " ", holds));
  }
  const SafetensorsHeader network = read_header(path / "model.safetensors");
  text += metadata_lines(network) + layer_lines(network);
  if (verify) {
    CheckpointStore::verify(path, report);
    text += line("verified", str("all ", manifest.files.size(), " files match their SHA-256"));
  }
  return text;
}

}  // namespace dtrain::checkpoint
