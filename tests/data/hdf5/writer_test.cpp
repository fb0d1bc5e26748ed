#include "data/hdf5/writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <thread>

#include "core/error.h"
#include "data/hdf5/data_set.h"
#include "data/hdf5/file_store.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;
using testing::extras_of;
using testing::input_of;
using testing::target_bytes_of;
using testing::TempDir;

int64_t entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

// Limits the size of the files that this process writes to `bytes`, until it is destroyed.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(Writer, ManyThreadsWriteInAnyOrder) {
  const TempDir folder;
  const std::unique_ptr<Writer> writer =
      Writer::create(folder / "d.h5", testing::small_schema(200));
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t id = 199 - t; id >= 0; id -= 4)
          writer->write(id, input_of(id), target_bytes_of(id));
      });
    }
  }
  writer->finish(extras_of(200));
  EXPECT_NO_THROW(open_file(folder / "d.h5")->verify());
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(Writer, TheFileAppearsOnlyWithFinishAndLeavesNothingWithoutIt) {
  const TempDir folder;
  {
    const std::unique_ptr<Writer> writer =
        Writer::create(folder / "new/folder/d.h5", testing::small_schema(2));
    EXPECT_FALSE(std::filesystem::exists(folder / "new/folder/d.h5"));
    EXPECT_EQ(entries(folder / "new/folder"), 1);
  }
  EXPECT_EQ(entries(folder / "new/folder"), 0);
}

TEST(Writer, AnExistingFileStaysUntilFinish) {
  const TempDir folder;
  testing::write_data_set(folder / "d.h5", 3, extras_of(3));
  Writer::create(folder / "d.h5", testing::small_schema(9));
  EXPECT_EQ(open_file(folder / "d.h5")->schema().samples, 3);
  testing::write_data_set(folder / "d.h5", 9, extras_of(9));
  EXPECT_EQ(open_file(folder / "d.h5")->schema().samples, 9);
}

TEST(Writer, FinishRequiresAllSamples) {
  const TempDir folder;
  {
    const std::unique_ptr<Writer> writer =
        Writer::create(folder / "d.h5", testing::small_schema(2));
    writer->write(1, input_of(1), target_bytes_of(1));
    expect_error<Error>([&] { writer->finish(extras_of(2)); }, {"sample 0 was not written"});
  }
  EXPECT_EQ(entries(folder.path()), 0);
}

TEST(Writer, AFullDiskIsReportedAtOnce) {
  const TempDir folder;
  testing::write_data_set(folder / "old.h5", 3, extras_of(3));
  {
    const FileSizeLimit limit(100'000);
    expect_error<OutputError>(
        [&] { Writer::create(folder / "d.h5", testing::small_schema(10'000)); },
        {"d.h5", "File too large"});
  }
  EXPECT_EQ(entries(folder.path()), 1) << "only the existing file stays";
  EXPECT_NO_THROW(open_file(folder / "old.h5")->verify());
}

TEST(Writer, AFullDiskAtTheEndKeepsTheExistingFile) {
  const TempDir folder;
  testing::write_data_set(folder / "d.h5", 3, extras_of(3));
  {
    const std::unique_ptr<Writer> writer =
        Writer::create(folder / "d.h5", testing::small_schema(4));
    for (int64_t id = 0; id < 4; ++id) writer->write(id, input_of(id), target_bytes_of(id));
    Writer::Extras extras = extras_of(4);
    extras.source[0] = std::string(1 << 20, 'x');
    const FileSizeLimit limit(100'000);
    expect_error<OutputError>([&] { writer->finish(extras); }, {"d.h5", "File too large"});
  }
  EXPECT_EQ(entries(folder.path()), 1);
  EXPECT_EQ(open_file(folder / "d.h5")->schema().samples, 3);
}

TEST(Writer, AFolderThatCannotBeCreatedIsNamed) {
  const TempDir folder;
  write_atomically(real_file_system(), folder / "file", "x");
  expect_error<OutputError>(
      [&] { Writer::create(folder / "file" / "d.h5", testing::small_schema(1)); }, {"file"});
}

}  // namespace
}  // namespace dtrain::data
