#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include <span>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "os/file_system.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::checkpoint {
namespace {

constexpr const char* kFormat = "dtrain checkpoint";
constexpr int kVersion = 1;

nlohmann::json to_json(const Manifest& manifest) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, record] : manifest.files)
    files[name] = {{"bytes", record.bytes}, {"sha256", record.sha256}};
  nlohmann::json json = {{"format", kFormat},
                         {"version", kVersion},
                         {"step", manifest.step},
                         {"world_size", manifest.world_size},
                         {"files", files}};
  const std::string content = json.dump();
  json["sha256"] = sha256_hex(std::as_bytes(std::span(content)));
  return json;
}

std::vector<std::string> file_names(int world_size) {
  std::vector<std::string> names{"model.safetensors", "optimizer.safetensors", "state.json"};
  for (int rank = 0; rank < world_size; ++rank) names.push_back(rank_file(rank));
  return names;
}

}  // namespace

std::string rank_file(int rank) { return str("rank_", rank, ".safetensors"); }

std::string manifest_text(const Manifest& manifest) { return to_json(manifest).dump(2) + "\n"; }

Manifest read_manifest(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::string text;
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    // Reading a pipe would wait for a writer
    throw CheckpointError(str(file, " is not a regular file"));
  }
  try {
    text = read_text(path);
  } catch (const Error& e) {
    throw CheckpointError(e.what());
  }
  Manifest manifest;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != kFormat)
      throw CheckpointError(str(file, " is not the manifest of a dtrain checkpoint"));
    if (json.at("version") != kVersion) {
      throw CheckpointError(str(file, " has version ", json.at("version").dump(),
                                "; this dtrain reads version ", kVersion));
    }
    manifest.step = json.at("step").get<int64_t>();
    manifest.world_size = json.at("world_size").get<int>();
    for (const auto& [name, record] : json.at("files").items()) {
      manifest.files[name] = {record.at("bytes").get<int64_t>(),
                              record.at("sha256").get<std::string>()};
    }
  } catch (const nlohmann::json::exception& e) {
    throw CheckpointError(str(file, " is damaged: ", json_defect(e.what())));
  }
  if (manifest_text(manifest) != text)
    throw CheckpointError(str(file, " is damaged: it does not match its own SHA-256"));
  if (manifest.step < 0 || manifest.world_size < 1) {
    throw CheckpointError(
        str(file, " has step ", manifest.step, " and world_size ", manifest.world_size));
  }
  if (manifest.files.size() != static_cast<size_t>(manifest.world_size) + 3) {
    throw CheckpointError(
        str(file, " lists ", manifest.files.size(), " files; ", manifest.world_size,
            manifest.world_size == 1 ? " rank needs " : " ranks need ", manifest.world_size + 3));
  }
  for (const std::string& name : file_names(manifest.world_size)) {
    if (manifest.files.count(name) == 0) throw CheckpointError(str(file, " does not list ", name));
  }
  return manifest;
}

}  // namespace dtrain::checkpoint
