// A file system that fails at its k-th call, for every k until a save succeeds: wherever the
// failure occurs, the newest checkpoint that verifies is the old one or the new one, whole.

#include <gtest/gtest.h>

#include "checkpoint/snapshots.h"
#include "checkpoint/store.h"
#include "core/error.h"
#include "support/temp_dir.h"

namespace dtrain::checkpoint {
namespace {

using testing::expect_equal;
using testing::names_in;
using testing::snapshot_of;
using testing::TempDir;

enum class Fault {
  kOnce,
  kFromThenOn
};  // one call fails; or that one and all later ones, as if the process had died

class FaultyFileSystem : public FileSystem {
 public:
  FaultyFileSystem(int fail_at, Fault fault) : fail_at_(fail_at), fault_(fault) {}
  int calls() const { return calls_; }

  void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    if (!fails()) return real_file_system().write_durably(path, bytes);
    if (calls_ == fail_at_) real_file_system().write_durably(path, bytes.first(bytes.size() / 2));
    throw OutputError("cannot write");
  }
  void sync_folder(const std::filesystem::path& folder) override {
    if (fails()) throw OutputError("cannot sync");
    real_file_system().sync_folder(folder);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (fails()) throw OutputError("cannot rename");
    real_file_system().rename(from, to);
  }
  void create_folders(const std::filesystem::path& folder) override {
    if (fails()) throw OutputError("cannot create folder");
    real_file_system().create_folders(folder);
  }
  void create_folder(const std::filesystem::path& folder) override {
    if (fails()) throw OutputError("cannot create folder");
    real_file_system().create_folder(folder);
  }
  void remove_all(const std::filesystem::path& path) override {
    if (!fails()) return real_file_system().remove_all(path);
    if (calls_ == fail_at_ && std::filesystem::exists(path)) {  // removes a part of it
      real_file_system().remove_all(std::filesystem::directory_iterator(path)->path());
    }
    throw OutputError("cannot remove");
  }

 private:
  bool fails() {
    return ++calls_ == fail_at_ || (fault_ == Fault::kFromThenOn && calls_ > fail_at_);
  }

  const int fail_at_;
  const Fault fault_;
  int calls_ = 0;
};

// A watchdog observes it: reading a large checkpoint back takes as long as writing it.
TEST(CheckpointFaults, ReadingBackIsProgress) {
  class Reads : public FaultyFileSystem {
   public:
    Reads() : FaultyFileSystem(0, Fault::kOnce) {}
    void note_read() override { ++reads; }
    int reads = 0;
  } files;
  const TempDir folder;
  CheckpointStore(folder.path(), files, 1).save(snapshot_of(1, 2));
  EXPECT_GE(files.reads, 5) << "each file of two ranks but for the manifest";
}

// Saves `second` over `first` with a fault at call 1, 2, ... Returns the number of calls of a
// whole save.
int try_every_fault(const Snapshot& first, const Snapshot& second, const Snapshot& third,
                    Fault fault) {
  for (int fail_at = 1;; ++fail_at) {
    SCOPED_TRACE("fault at call " + std::to_string(fail_at));
    const TempDir folder;
    CheckpointStore(folder.path(), real_file_system(), 1).save(first);
    FaultyFileSystem files(fail_at, fault);
    bool saved = true;
    try {
      CheckpointStore(folder.path(), files, 1).save(second);
    } catch (const OutputError&) {
      saved = false;
    }

    CheckpointStore after(folder.path(), real_file_system(), 1);
    const auto newest = after.newest(nullptr);
    if (!newest) {
      ADD_FAILURE() << "no checkpoint verifies";
      return fail_at;
    }
    const Snapshot found = CheckpointStore::load(*newest);
    expect_equal(found, saved || found.state_json == second.state_json ? second : first);

    after.save(third);
    EXPECT_EQ(names_in(folder.path()).size(), 1u) << "something of the failed save is left";
    expect_equal(CheckpointStore::load(*after.newest(nullptr)), third);
    if (files.calls() < fail_at) return files.calls();
  }
}

TEST(CheckpointFaults, ANewStep) {
  for (const Fault fault : {Fault::kOnce, Fault::kFromThenOn}) {
    // Two folders, seven files, sync, rename, sync; then the older one is renamed and removed.
    EXPECT_EQ(try_every_fault(snapshot_of(1), snapshot_of(2), snapshot_of(3), fault), 13);
  }
}

TEST(CheckpointFaults, TheSameStepAgain) {
  Snapshot again = snapshot_of(2);
  again.state_json = "again";
  for (const Fault fault : {Fault::kOnce, Fault::kFromThenOn}) {
    EXPECT_EQ(try_every_fault(snapshot_of(2), again, snapshot_of(3), fault), 14);
  }
}

}  // namespace
}  // namespace dtrain::checkpoint
