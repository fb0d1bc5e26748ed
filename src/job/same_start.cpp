#include "job/same_start.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "config/differences.h"
#include "core/error.h"
#include "core/hash.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "dist/world.h"
#include "os/file_descriptor.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

constexpr size_t kMostNamed = 3;  // keys, and ranks, in one message

struct Hashes {
  uint64_t program = 0, keys = 0;
  bool operator==(const Hashes&) const = default;
};

// "TEXT; rank 2 on node1 ..." of the first ranks for which `difference` is not "".
std::string differing_ranks(
    std::span<const RankStart> ranks,
    const std::function<std::string(std::span<const RankStart>, size_t)>& difference) {
  std::vector<std::string> found;
  size_t more = 0;
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::string what = difference(ranks, rank);
    if (what.empty()) continue;
    if (found.size() < kMostNamed) {
      found.push_back(str("rank ", rank, " on ", ranks[rank].node, ": ", what));
    } else {
      ++more;
    }
  }
  return join(found, "; ") + (more > 0 ? str("; and ", more, " more ranks") : "");
}

void throw_if_different(std::span<const RankStart> ranks) {
  if (const std::string programs = differing_ranks(ranks, other_program); !programs.empty()) {
    throw UsageError(str("the ranks run different programs. ", programs,
                         ". Start the same build of dtrain on all hosts"));
  }
  if (const std::string keys = differing_ranks(ranks, other_config); !keys.empty()) {
    throw ConfigError(str("the ranks have different configurations. ", keys,
                          ". Give all ranks the same flags and the same config file"));
  }
}

// xxh64 of a regular file; 0 if it cannot be read.
uint64_t file_hash(const std::string& path) {
  FileDescriptor file;
  struct stat status {};
  if (file.open(path, O_RDONLY | O_NONBLOCK) != 0 || ::fstat(file.get(), &status) != 0) return 0;
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) return 0;
  const auto size = static_cast<size_t>(status.st_size);
  void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (bytes == MAP_FAILED) return 0;
  const uint64_t hash = xxh64({static_cast<const std::byte*>(bytes), size});
  ::munmap(bytes, size);
  return hash;
}

}  // namespace

uint64_t program_hash() { return file_hash("/proc/self/exe"); }

std::string keys_of_start(const config::Config& config, bool reads_init) {
  std::string text = config::keys_in_common(config);
  const auto add = [&text](const char* key, const std::string& file) {
    const uint64_t hash = file.empty() ? 0 : file_hash(file);
    text += str("the content of ", key, "=", hash == 0 ? "" : hex(hash), "\n");
  };
  add("model.file", config.model.file);
  if (reads_init) add("model.init", config.model.init);
  return text;
}

std::string other_program(std::span<const RankStart> ranks, size_t rank) {
  const uint64_t ours = ranks[0].program, theirs = ranks[rank].program;
  if (ours == theirs || ours == 0 || theirs == 0) return "";
  return str("its binary has hash ", hex(theirs), ", that of rank 0 has ", hex(ours));
}

std::string other_config(std::span<const RankStart> ranks, size_t rank) {
  const std::vector<std::string> ours = split(ranks[0].keys, '\n'),
                                 theirs = split(ranks[rank].keys, '\n');
  if (ours.size() != theirs.size()) return "it knows other keys";
  std::vector<std::string> found;
  size_t more = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i] == theirs[i]) continue;
    if (found.size() == kMostNamed) {
      ++more;
      continue;
    }
    const size_t ours_at = ours[i].find('='), theirs_at = theirs[i].find('=');
    if (theirs.at(i).substr(0, theirs_at) != ours.at(i).substr(0, ours_at))
      return "it knows other keys";
    const auto value = [](const std::string& line, size_t at) {
      return at + 1 < line.size() ? line.substr(at + 1) : "''";
    };
    found.push_back(str(ours[i].substr(0, ours_at), " is ", value(theirs[i], theirs_at), ", not ",
                        value(ours[i], ours_at)));
  }
  return join(found, ", ") + (more > 0 ? str(", and ", more, " more") : "");
}

std::string other_data(std::span<const RankStart> ranks, size_t rank) {
  if (ranks[0].data == ranks[rank].data) return "";
  return str("its data have checksum ", hex(ranks[rank].data), ", those of rank 0 have ",
             hex(ranks[0].data));
}

void check_same_start(dist::Communicator& host, const dist::World& world,
                      const config::Config& config, bool dry_run, bool reads_init) {
  if (host.size() == 1) return;
  const std::string keys =
      keys_of_start(config, reads_init) + (dry_run ? "--dry-run=given\n" : "--dry-run=\n");
  const Hashes mine{program_hash(), xxh64(keys)};
  const std::vector<Hashes> hashes = dist::all_gather_object(host, mine);
  if (std::ranges::count(hashes, hashes[0]) == host.size()) return;
  // All ranks know that, and exchange what a message needs.
  const std::vector<std::string> nodes = dist::all_gather_object(host, world.node);
  const std::vector<std::string> all_keys = dist::all_gather_object(host, keys);
  std::vector<RankStart> ranks;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    ranks.push_back({.node = nodes[rank], .program = hashes[rank].program, .keys = all_keys[rank]});
  }
  dist::agree_on_rank0(host, [&] { throw_if_different(ranks); });
}

void check_same_data(dist::Communicator& host, const dist::World& world, const std::string& file,
                     uint64_t checksum) {
  if (host.size() == 1) return;
  const std::vector<uint64_t> checksums = dist::all_gather_object(host, checksum);
  if (std::ranges::count(checksums, checksum) == host.size()) return;
  const std::vector<std::string> nodes = dist::all_gather_object(host, world.node);
  std::vector<RankStart> ranks;
  for (size_t rank = 0; rank < nodes.size(); ++rank)
    ranks.push_back({.node = nodes[rank], .keys = "", .data = checksums[rank]});
  dist::agree_on_rank0(host, [&] {
    throw DataError(str("the ranks have different data: rank 0 opened ", file, ". ",
                        differing_ranks(ranks, other_data),
                        ". Copy the same file to all hosts, or use one on a shared file system"));
  });
}

}  // namespace dtrain::job
