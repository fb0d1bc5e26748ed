#pragma once

// MANIFEST.json of a checkpoint: what files it has, with size and SHA-256 each, and one of the manifest itself. Its
// text has exactly one form (docs/file_formats.md), so that no flipped bit in it goes unseen.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dtrain::checkpoint {

inline constexpr const char* kManifestName = "MANIFEST.json";

struct FileRecord {
  int64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  int64_t step = 0;
  int world_size = 1;
  std::map<std::string, FileRecord> files;  // by name; exactly file_names(world_size)
};

std::string rank_file(int rank);
std::vector<std::string> file_names(int world_size);  // the manifest itself left out

std::string manifest_text(const Manifest&);
Manifest parse_manifest(const std::string& text, const std::string& file);  // throws CheckpointError
Manifest read_manifest(const std::filesystem::path&);                       // throws CheckpointError

}  // namespace dtrain::checkpoint
