#pragma once

// MANIFEST.json of a checkpoint: its files with size and SHA-256, and a SHA-256 of the manifest
// itself. One manifest has exactly one text (docs/file_formats.md), so that every flipped bit in it
// is detected. Thread-safety: pure functions.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace dtrain::checkpoint {

inline constexpr const char* kManifestName = "MANIFEST.json";

struct FileRecord {
  int64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  int64_t step = 0;
  int world_size = 1;
  // All files of the checkpoint except the manifest, keyed by name
  std::map<std::string, FileRecord> files;
};

std::string rank_file(int rank);  // the file's name

std::string manifest_text(const Manifest&);
// Throws CheckpointError if the file cannot be read, is damaged, or does not list the files of its
// world size.
Manifest read_manifest(const std::filesystem::path&);

}  // namespace dtrain::checkpoint
