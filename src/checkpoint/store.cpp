#include "checkpoint/store.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <string_view>
#include <system_error>

#include "checkpoint/manifest.h"
#include "core/check.h"
#include "core/hash.h"
#include "core/log.h"
#include "text/number_text.h"

namespace dtrain::checkpoint {
namespace {

constexpr const char* kStateName = "state.json";

// Names in the checkpoint folder. Whatever has another name is never touched.
//   step_00001234                     a checkpoint
//   step_00001234.old-<16 hex>        one that another of the same step is replacing
//   step_00001234.tmp-<16 hex>        being written or deleted: useless without its process
struct Name {
  int64_t step = 0;
  enum Kind { kCheckpoint, kOld, kTemporary } kind = kCheckpoint;
};

std::string folder_name(int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld", static_cast<long long>(step));
  return name;
}

std::optional<Name> parse_name(const std::string& text) {
  const std::string stem = text.substr(0, text.find('.'));
  if (!stem.starts_with("step_")) return std::nullopt;
  const std::optional<int64_t> step = parse_number<int64_t>(std::string_view(stem).substr(5));
  if (!step || *step < 0 || folder_name(*step) != stem) return std::nullopt;
  Name name{.step = *step};
  const std::string_view rest = std::string_view(text).substr(stem.size());
  if (rest.empty()) return name;
  name.kind = rest.starts_with(".tmp-") ? Name::kTemporary : Name::kOld;
  if (!rest.starts_with(".tmp-") && !rest.starts_with(".old-")) return std::nullopt;
  const std::string_view suffix = rest.substr(5);
  const std::optional<uint64_t> word = parse_hex(suffix);
  return word && hex(*word) == suffix ? std::optional(name) : std::nullopt;
}

std::string unique(int64_t step, const char* kind) {
  std::random_device random;
  return str(folder_name(step), ".", kind, "-", hex(uint64_t{random()} << 32 | random()));
}

// The folders with such names in `folder`: the highest step first, and the plain name first within
// a step.
std::vector<std::pair<Name, std::filesystem::path>> entries(const std::filesystem::path& folder) {
  std::vector<std::pair<Name, std::filesystem::path>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::optional<Name> name = parse_name(it->path().filename().string());
    if (name && it->is_directory(error) && !it->is_symlink(error))
      found.emplace_back(*name, it->path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.first.step, a.first.kind, a.second) <
           std::tuple(-b.first.step, b.first.kind, b.second);
  });
  return found;
}

std::string read_or_throw(const std::filesystem::path& path) {
  try {
    return read_text(path);
  } catch (const Error& e) {
    throw CheckpointError(e.what());
  }
}

// For the cleanup after a save that succeeded, whose failure must not fail the save.
template <typename Action>
void warn_if_it_fails(const Action& action) {
  try {
    action();
  } catch (const Error& e) {
    log::warning(str("an older checkpoint could not be cleaned up: ", e.what()));
  }
}

void write_files(FileSystem& files, const std::filesystem::path& folder, const Snapshot& snapshot) {
  Manifest manifest{snapshot.step, snapshot.world_size, {}};
  const auto write = [&](const std::string& name, std::span<const std::byte> bytes) {
    files.write_durably(folder / name, bytes);
    manifest.files[name] = {static_cast<int64_t>(bytes.size()), sha256_hex(bytes)};
  };
  write("model.safetensors", to_safetensors(snapshot.model, snapshot.model_metadata));
  write("optimizer.safetensors", to_safetensors(snapshot.optimizer));
  write(kStateName, std::as_bytes(std::span(snapshot.state_json)));
  for (int rank = 0; rank < snapshot.world_size; ++rank) {
    write(rank_file(rank), to_safetensors(snapshot.ranks[static_cast<size_t>(rank)]));
  }
  const std::string text = manifest_text(manifest);
  files.write_durably(folder / kManifestName, std::as_bytes(std::span(text)));
  files.sync_folder(folder);
}

void verify_file(const std::filesystem::path& path, const FileRecord& record,
                 const std::function<void(int64_t)>& read = {}) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) throw CheckpointError(str(path.string(), ": ", error.message()));
  if (bytes != record.bytes) {
    throw CheckpointError(
        str(path.string(), " has ", bytes, " bytes; the manifest says ", record.bytes));
  }
  std::string sha256;
  try {
    sha256 = sha256_hex_of_file(path, read);
  } catch (const Error& e) {
    throw CheckpointError(e.what());
  }
  if (sha256 != record.sha256) {
    throw CheckpointError(str(path.string(), " is damaged: its SHA-256 is not the manifest's"));
  }
}

Manifest verified(const std::filesystem::path& checkpoint, const ReportProgress& report = {}) {
  const Manifest manifest = read_manifest(checkpoint / kManifestName);
  const std::optional<Name> name = parse_name(checkpoint.filename().string());
  if (name && name->step != manifest.step) {
    throw CheckpointError(
        str(checkpoint.string(), " is of step ", manifest.step, " by its manifest"));
  }
  Progress progress{.stage = "verifying", .unit = Progress::Unit::kBytes};
  for (const auto& [file, record] : manifest.files) progress.total += record.bytes;
  const auto read = [&](int64_t bytes) {
    progress.done += bytes;
    if (report) report(progress);
  };
  for (const auto& [file, record] : manifest.files) verify_file(checkpoint / file, record, read);
  return manifest;
}

}  // namespace

CheckpointStore::CheckpointStore(std::filesystem::path folder, FileSystem& files, int64_t keep_last)
    : folder_(std::move(folder)), files_(files), keep_last_(keep_last) {
  DTRAIN_CHECK(keep_last >= 1, "keep_last ", keep_last);
}

std::filesystem::path CheckpointStore::save(const Snapshot& snapshot) {
  DTRAIN_CHECK(snapshot.step >= 0 && snapshot.world_size >= 1 &&
               snapshot.ranks.size() == static_cast<size_t>(snapshot.world_size));
  std::error_code unknown;
  const bool removed = tidied_ && !std::filesystem::exists(folder_, unknown);
  // Not its parents: a run folder that was removed must not appear again
  files_.create_folder(folder_);
  if (removed) {
    log::warning(str(folder_.string(),
                     " was removed or moved, with the checkpoints in it. It is made again"));
  }
  tidy();

  const std::filesystem::path target = folder_ / folder_name(snapshot.step);
  const std::filesystem::path temporary = folder_ / unique(snapshot.step, "tmp");
  const std::filesystem::path old = folder_ / unique(snapshot.step, "old");
  const bool replaces = std::filesystem::exists(target);
  bool moved_aside = false;
  try {
    files_.create_folder(temporary);
    write_files(files_, temporary, snapshot);
    if (replaces) files_.rename(target, old);
    moved_aside = replaces;
    files_.rename(temporary, target);
  } catch (...) {
    // What cannot be undone here is handled later: newest() finds it, and the next run cleans
    // it up.
    try {
      if (moved_aside) files_.rename(old, target);
      files_.remove_all(temporary);
    } catch (const Error&) {
    }
    throw;
  }
  files_.sync_folder(folder_);
  try {
    verify(target, [this](const Progress&) { files_.note_read(); });
  } catch (const CheckpointError& e) {
    throw OutputError(str("the checkpoint just written does not read back: ", e.what(),
                          ". Older ones were kept; check the disk"));
  }
  prune(snapshot.step);
  return target;
}

void CheckpointStore::protect(int64_t step) { protected_step_ = step; }

std::optional<std::filesystem::path> CheckpointStore::newest(std::vector<Skipped>* skipped) const {
  for (const auto& [name, path] : entries(folder_)) {
    if (name.kind == Name::kTemporary) continue;
    try {
      verify(path);
      return path;
    } catch (const CheckpointError& e) {
      if (skipped != nullptr) skipped->push_back({path, e.what()});
    }
  }
  return std::nullopt;
}

std::vector<std::pair<int64_t, std::filesystem::path>> CheckpointStore::list() const {
  std::vector<std::pair<int64_t, std::filesystem::path>> found;
  for (const auto& [name, path] : entries(folder_)) {
    if (name.kind == Name::kCheckpoint) found.emplace_back(name.step, path);
  }
  return found;
}

std::filesystem::path CheckpointStore::folder_of(int64_t step) const {
  return folder_ / folder_name(step);
}

std::string CheckpointStore::read_state(const std::filesystem::path& checkpoint) {
  const Manifest manifest = read_manifest(checkpoint / kManifestName);
  const std::filesystem::path file = checkpoint / kStateName;
  verify_file(file, manifest.files.at(kStateName));
  return read_or_throw(file);
}

void CheckpointStore::verify(const std::filesystem::path& checkpoint,
                             const ReportProgress& report) {
  verified(checkpoint, report);
}

Snapshot CheckpointStore::load(const std::filesystem::path& checkpoint) {
  const Manifest manifest = verified(checkpoint);
  TensorFile model = read_safetensors(checkpoint / "model.safetensors");
  Snapshot snapshot;
  snapshot.step = manifest.step;
  snapshot.world_size = manifest.world_size;
  snapshot.model = std::move(model.tensors);
  snapshot.model_metadata = std::move(model.metadata);
  snapshot.optimizer = read_safetensors(checkpoint / "optimizer.safetensors").tensors;
  snapshot.state_json = read_or_throw(checkpoint / kStateName);
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    snapshot.ranks.push_back(read_safetensors(checkpoint / rank_file(rank)).tensors);
  }
  return snapshot;
}

// Cleans up after interrupted runs: removes half-written folders, and restores a checkpoint that
// was being replaced if the new one is not there.
void CheckpointStore::tidy() {
  if (std::exchange(tidied_, true)) return;
  for (const auto& [name, path] : entries(folder_)) {
    warn_if_it_fails([&, &name = name, &path = path] {
      const std::filesystem::path target = folder_ / folder_name(name.step);
      if (name.kind == Name::kTemporary) {
        files_.remove_all(path);
      } else if (name.kind == Name::kOld && !std::filesystem::exists(target)) {
        files_.rename(path, target);
      }
    });
  }
}

// Deletes all but the keep_last newest checkpoints of the steps up to `saved`, which has been
// verified. Those of later steps, damaged or of a run that was resumed from before them, stay.
void CheckpointStore::prune(int64_t saved) {
  int64_t kept = 0;
  for (const auto& [name, path] : entries(folder_)) {
    if (name.kind == Name::kTemporary || name.step > saved) continue;
    const bool superseded = name.kind == Name::kOld && name.step == saved;
    if (!superseded && (name.step == protected_step_ || kept < keep_last_)) {
      ++kept;
      continue;
    }
    warn_if_it_fails([&, &name = name, &path = path] {
      // Renamed first, so that a half-deleted checkpoint is never taken for a damaged one.
      const std::filesystem::path doomed = folder_ / unique(name.step, "tmp");
      files_.rename(path, doomed);
      files_.remove_all(doomed);
    });
  }
}

}  // namespace dtrain::checkpoint
