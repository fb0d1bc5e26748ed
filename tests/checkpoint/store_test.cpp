#include "checkpoint/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <random>

#include "checkpoint/snapshots.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::checkpoint {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::names_in;
using testing::snapshot_of;
using testing::TempDir;

using Names = std::vector<std::string>;

CheckpointStore real_store(const std::filesystem::path& folder, int64_t keep_last = 3) {
  return {folder, real_file_system(), keep_last};
}

void flip(const std::filesystem::path& file, int64_t bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(bit / 8);
  const char byte = static_cast<char>(stream.get() ^ (1 << (bit % 8)));
  stream.seekp(bit / 8);
  stream.put(byte);
  ASSERT_TRUE(stream.flush());
}

TEST(CheckpointStore, LoadsWhatWasSaved) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "run");
  CheckpointStore store = real_store(folder / "run/checkpoints");
  const std::filesystem::path path = store.save(snapshot_of(1234, 3));
  EXPECT_EQ(path, folder / "run/checkpoints/step_00001234");
  EXPECT_EQ(names_in(path), (Names{"MANIFEST.json", "model.safetensors", "optimizer.safetensors",
                                   "rank_0.safetensors", "rank_1.safetensors", "rank_2.safetensors",
                                   "state.json"}));
  expect_equal(CheckpointStore::load(path), snapshot_of(1234, 3));
  EXPECT_EQ(store.newest(nullptr), path);
}

// So that the trainer notices a run folder that was removed.
TEST(CheckpointStore, DoesNotMakeTheRunFolderAgain) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "run");
  CheckpointStore store = real_store(folder / "run/checkpoints");
  store.save(snapshot_of(1));
  std::filesystem::remove_all(folder / "run/checkpoints");
  ::testing::internal::CaptureStderr();
  EXPECT_NO_THROW(store.save(snapshot_of(2)));
  store.save(snapshot_of(3));
  const std::string warned = ::testing::internal::GetCapturedStderr();
  const size_t at = warned.find("run/checkpoints was removed or moved");
  EXPECT_NE(at, std::string::npos) << warned;
  EXPECT_EQ(warned.find("was removed", at + 25), std::string::npos) << "once: " << warned;
  std::filesystem::remove_all(folder / "run");
  expect_error<OutputError>([&] { store.save(snapshot_of(4)); },
                            {"run/checkpoints: No such file or directory"});
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(CheckpointStore, AnAbsentOrEmptyFolderHasNone) {
  const TempDir folder;
  std::vector<Skipped> skipped;
  EXPECT_FALSE(real_store(folder / "absent").newest(&skipped).has_value());
  EXPECT_FALSE(real_store(folder.path()).newest(&skipped).has_value());
  EXPECT_TRUE(skipped.empty());
}

TEST(CheckpointStore, KeepsTheLastAndTheProtected) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path(), 2);
  for (const int64_t step : {10, 20, 30}) store.save(snapshot_of(step));
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000020", "step_00000030"}));
  store.protect(20);
  for (const int64_t step : {40, 50, 60}) store.save(snapshot_of(step));
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000020", "step_00000050", "step_00000060"}));
  store.protect(60);
  store.save(snapshot_of(70));
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000060", "step_00000070"}));
  store.save(snapshot_of(80));
  store.save(snapshot_of(90));
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000060", "step_00000080", "step_00000090"}));
}

TEST(CheckpointStore, OrdersByNumberNotByName) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  store.save(snapshot_of(99'999'999));
  store.save(snapshot_of(100'000'000));
  EXPECT_EQ(store.newest(nullptr), folder / "step_100000000");
}

TEST(CheckpointStore, TheSameStepAgainReplaces) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  store.save(snapshot_of(5, 1));
  Snapshot other = snapshot_of(5, 2);
  other.state_json = "other";
  store.save(other);
  EXPECT_EQ(names_in(folder.path()), Names{"step_00000005"});
  expect_equal(CheckpointStore::load(folder / "step_00000005"), other);
}

TEST(CheckpointStore, NewestSkipsTheDamagedAndSaysWhy) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  for (const int64_t step : {1, 2, 3}) store.save(snapshot_of(step));
  flip(folder / "step_00000003/model.safetensors", 1000);
  std::filesystem::remove(folder / "step_00000002/rank_1.safetensors");
  std::vector<Skipped> skipped;
  EXPECT_EQ(store.newest(&skipped), folder / "step_00000001");
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_EQ(skipped[0].folder, folder / "step_00000003");
  EXPECT_NE(skipped[0].reason.find("model.safetensors"), std::string::npos) << skipped[0].reason;
  EXPECT_NE(skipped[1].reason.find("rank_1.safetensors"), std::string::npos) << skipped[1].reason;
  expect_error<CheckpointError>([&] { CheckpointStore::load(folder / "step_00000003"); },
                                {"model.safetensors", "SHA-256"});
}

TEST(CheckpointStore, ASaveBelowADamagedNewerOneSurvives) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path(), 1);
  store.save(snapshot_of(200));
  std::filesystem::create_directories(folder / "step_00000300");
  store.save(snapshot_of(250));
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000250", "step_00000300"}));
  EXPECT_EQ(store.newest(nullptr), folder / "step_00000250");
}

TEST(CheckpointStore, EveryFlippedBitIsFound) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  const std::filesystem::path path = store.save(snapshot_of(7));
  std::mt19937_64 random(1);
  for (const std::string& name : names_in(path)) {
    const auto bits = static_cast<int64_t>(std::filesystem::file_size(path / name)) * 8;
    for (int i = 0; i < 200; ++i) {
      const auto bit = static_cast<int64_t>(random() % static_cast<uint64_t>(bits));
      flip(path / name, bit);
      EXPECT_THROW(CheckpointStore::verify(path), CheckpointError) << name << " bit " << bit;
      flip(path / name, bit);
    }
  }
  EXPECT_NO_THROW(CheckpointStore::verify(path));
}

TEST(CheckpointStore, TruncatedAndMissingFilesAreFound) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  const std::filesystem::path path = store.save(snapshot_of(7));
  for (const std::string& name : names_in(path)) {
    const uintmax_t size = std::filesystem::file_size(path / name);
    const std::string text = read_text(path / name);
    for (const uintmax_t kept : {uintmax_t{0}, size / 2, size - 1}) {
      std::filesystem::resize_file(path / name, kept);
      expect_error<CheckpointError>([&] { CheckpointStore::verify(path); }, {name});
    }
    std::filesystem::remove(path / name);
    expect_error<CheckpointError>([&] { CheckpointStore::verify(path); }, {name});
    std::ofstream(path / name, std::ios::binary) << text;
    EXPECT_NO_THROW(CheckpointStore::verify(path));
  }
}

TEST(CheckpointStore, AManifestOfAnotherStepOrOtherFilesIsRefused) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  std::filesystem::rename(store.save(snapshot_of(7)), folder / "step_00000008");
  expect_error<CheckpointError>([&] { CheckpointStore::verify(folder / "step_00000008"); },
                                {"step_00000008", "step 7"});
  std::filesystem::rename(folder / "step_00000008", folder / "best");
  EXPECT_NO_THROW(CheckpointStore::verify(folder / "best"))
      << "a copy with a name that the user chose is fine";
}

TEST(CheckpointStore, ListsFoldersAndReadsAStateAlone) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  store.save(snapshot_of(2));
  const std::filesystem::path newer = store.save(snapshot_of(10));
  std::filesystem::create_directory(folder / "step_00000011.tmp-0123456789abcdef");
  std::filesystem::create_directory(folder / "other");
  ASSERT_EQ(store.list().size(), 2u);
  EXPECT_EQ(store.list()[0], std::pair(int64_t{10}, newer));
  EXPECT_EQ(store.list()[1].first, 2);
  EXPECT_EQ(store.folder_of(2), folder / "step_00000002");
  flip(newer / "model.safetensors", 900);  // of no importance to the state
  EXPECT_EQ(CheckpointStore::read_state(newer), "{\"step\": 10}");
  flip(newer / "state.json", 3);
  expect_error<CheckpointError>([&] { CheckpointStore::read_state(newer); },
                                {"state.json is damaged"});
  std::filesystem::remove(newer / "state.json");
  expect_error<CheckpointError>([&] { CheckpointStore::read_state(newer); }, {"state.json"});
}

TEST(CheckpointStore, ADamagedManifestIsDescribedInOurWords) {
  const TempDir folder;
  const std::filesystem::path path = real_store(folder.path()).save(snapshot_of(1));
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"{\n  \"a\": ", "MANIFEST.json is damaged: not valid JSON at line 2, column 8"},
           {"{}", "MANIFEST.json is damaged: there is no 'format'"},
           {"[1]", "MANIFEST.json is damaged: a value has another type"}}) {
    std::ofstream(path / "MANIFEST.json") << text;
    expect_error<CheckpointError>([&] { CheckpointStore::verify(path); }, {says});
    try {
      CheckpointStore::verify(path);
    } catch (const CheckpointError& error) {
      EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos)
          << error.what();
    }
  }
}

TEST(CheckpointStore, NeverTouchesOtherNames) {
  const TempDir folder;
  const Names foreign{"best",
                      "step_5",
                      "step_00000001.bak",
                      "step_00000001.tmp-xyz",
                      "step_00000001.tmp-0123456789ABCDEF",
                      "step_-0000001",
                      "step_00000001x",
                      "notes.txt"};
  for (const std::string& name : foreign) std::filesystem::create_directories(folder / name);
  std::ofstream(folder / "step_00000002") << "a file, not a folder";
  std::filesystem::create_directory_symlink("/", folder / "step_00000003");
  CheckpointStore store = real_store(folder.path(), 1);
  store.save(snapshot_of(10));
  store.save(snapshot_of(11));
  Names expected = foreign;
  expected.insert(expected.end(), {"step_00000002", "step_00000003", "step_00000011"});
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_in(folder.path()), expected);
}

TEST(CheckpointStore, TheFirstSaveCleansUpAfterInterruptedRuns) {
  const TempDir folder;
  real_store(folder.path()).save(snapshot_of(3));
  std::filesystem::rename(folder / "step_00000003", folder / "step_00000003.old-0123456789abcdef");
  std::filesystem::create_directories(folder / "step_00000004.tmp-0123456789abcdef/x");
  CheckpointStore store = real_store(folder.path());
  EXPECT_EQ(store.newest(nullptr), folder / "step_00000003.old-0123456789abcdef");
  EXPECT_EQ(names_in(folder.path()).size(), 2u) << "newest() must not change anything";
  store.save(snapshot_of(5));
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000003", "step_00000005"}));
}

TEST(CheckpointStore, TidyCleansUpWithoutASave) {
  const TempDir folder;
  real_store(folder.path()).save(snapshot_of(3));
  std::filesystem::create_directories(folder / "step_00000002.tmp-0123456789abcdef/x");
  real_store(folder.path()).tidy();
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000003"}));
}

TEST(CheckpointStore, AFullDiskLeavesOlderOnesAndNothingHalf) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  store.save(snapshot_of(1));
  Snapshot big = snapshot_of(2);
  big.optimizer = {{"big", at::zeros({1 << 20}, at::kFloat)}};
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit{1 << 20, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  expect_error<OutputError>([&] { store.save(big); }, {"optimizer.safetensors", "File too large"});
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(names_in(folder.path()), Names{"step_00000001"});
  expect_equal(CheckpointStore::load(*store.newest(nullptr)), snapshot_of(1));
}

TEST(InspectCheckpoint, ListsTheFilesOfAFolderAndVerifies) {
  const TempDir folder;
  CheckpointStore store = real_store(folder.path());
  const std::filesystem::path path = store.save(snapshot_of(1234));
  const std::string text = inspect_checkpoint(path, true);
  for (const char* part :
       {"1 234", "world size  2", "model.safetensors", "2 tensors, 25 elements of F32, I64",
        "network = headpose_cnn", "all 5 files match", "conv          24  weight [2, 3, 2, 2]",
        "24 parameters in 1 layer\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  flip(path / "state.json", 3);
  EXPECT_NO_THROW(inspect_checkpoint(path, false));
  EXPECT_THROW(inspect_checkpoint(path, true), CheckpointError);
}

}  // namespace
}  // namespace dtrain::checkpoint
