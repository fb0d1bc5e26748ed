#pragma once

// Whether the ranks of a job were started alike: with one program, one configuration and the same
// data. Ranks on several hosts may have been given an old binary or another copy of a file, and an
// app context of mpirun (`mpirun -np 1 dtrain A : -np 1 dtrain B`) may give each its own flags.
// Such a job would train something that was not asked for, or hang where ranks take different ways.
// Every function but the pure ones is collective.

#include <cstdint>
#include <span>
#include <string>

#include "config/config.h"

namespace dtrain::dist {
class Communicator;
struct World;
}  // namespace dtrain::dist

namespace dtrain::job {

struct RankStart {
  std::string node;
  uint64_t program = 0;  // hash of the binary; 0: unknown
  std::string keys;      // keys_of_start()
  uint64_t data = 0;     // Store::schema().checksum
};

// xxh64 of the file that this process runs; 0 if it cannot be read. Milliseconds.
uint64_t program_hash();

// config::keys_in_common(), and a line for each file that the network comes from (model.file,
// model.init) with the hash of its content, because hosts may have other copies under the same
// name. `reads_init`: false for a resumed run, which has its weights from the checkpoint, and for
// which model.init may be gone.
std::string keys_of_start(const config::Config&, bool reads_init);

// What differs between rank `rank` and rank 0, for a message; "": nothing. Pure.
std::string other_program(std::span<const RankStart> ranks, size_t rank);
std::string other_config(std::span<const RankStart> ranks,
                         size_t rank);  // "train.epochs is 3, not 2"
std::string other_data(std::span<const RankStart> ranks, size_t rank);

// UsageError on all ranks if their programs differ, ConfigError if their configurations do, which
// names the ranks and the keys. `dry_run` counts as a key. `reads_init`: as above; the same on
// all ranks.
void check_same_start(dist::Communicator& host, const dist::World&, const config::Config&,
                      bool dry_run, bool reads_init);

// DataError on all ranks if the data that they opened differ.
void check_same_data(dist::Communicator& host, const dist::World&, const std::string& file,
                     uint64_t checksum);

}  // namespace dtrain::job
