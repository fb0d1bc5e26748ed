#include "cli/row_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "core/error.h"
#include "os/file_system.h"
#include "support/temp_dir.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const OutputError& error) {
    return error.what();
  }
  return "no error";
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(RowOutputTest, TheFileAppearsWhole) {
  const testing::TempDir folder;
  RowOutput output(folder / "rows.csv");
  output.write("a\n");
  output.write("b\n");
  EXPECT_FALSE(fs::exists(folder / "rows.csv"));
  output.close();
  EXPECT_EQ(read_text(folder / "rows.csv"), "a\nb\n");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

// A signal ends most commands in the middle of their work, without destructors.
TEST(RowOutputTest, NothingIsThereBeforeTheFirstRow) {
  const testing::TempDir folder;
  RowOutput output(folder / "rows.csv");
  EXPECT_EQ(files_in(folder.path()), 0u);
  output.write("a\n");
  EXPECT_EQ(files_in(folder.path()), 1u) << "the temporary file";
}

TEST(RowOutputTest, WithoutRowsTheFileIsEmpty) {
  const testing::TempDir folder;
  RowOutput output(folder / "rows.csv");
  output.close();
  EXPECT_EQ(read_text(folder / "rows.csv"), "");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(RowOutputTest, WhatWasThereStaysUntilThen) {
  const testing::TempDir folder;
  std::ofstream(folder / "rows.csv") << "old";
  {
    RowOutput output(folder / "rows.csv");
    output.write("half");
  }
  EXPECT_EQ(read_text(folder / "rows.csv"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(RowOutputTest, WhatCameThereMeanwhileIsKeptUnlessItMayBeReplaced) {
  const testing::TempDir folder;
  for (const bool replace : {false, true}) {
    RowOutput output(folder / "rows.csv", replace);
    output.write("new");
    std::ofstream(folder / "rows.csv") << "another's";
    if (replace) {
      output.close();
    } else {
      EXPECT_THAT(failure([&] { output.close(); }),
                  HasSubstr("rows.csv exists: --force replaces it"));
    }
    EXPECT_EQ(read_text(folder / "rows.csv"), replace ? "new" : "another's");
  }
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(RowOutputTest, ALinkStaysALink) {
  const testing::TempDir folder;
  std::ofstream(folder / "real.csv") << "old";
  fs::create_symlink("real.csv", folder / "link.csv");
  RowOutput output(folder / "link.csv");
  output.write("new");
  output.close();
  EXPECT_TRUE(fs::is_symlink(folder / "link.csv"));
  EXPECT_EQ(read_text(folder / "real.csv"), "new");
}

TEST(RowOutputTest, ADeviceIsWrittenAndNotReplaced) {
  RowOutput output("/dev/null");
  output.write("rows");
  output.close();
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(RowOutputTest, AFullDiskIsSaid) {
  EXPECT_THAT(failure([] { RowOutput("/dev/full").write("rows"); }),
              HasSubstr("No space left on device: free some"));
}

TEST(RowOutputTest, AReaderThatHasGoneIsSaid) {
  const testing::TempDir folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::signal(SIGPIPE, SIG_IGN);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  RowOutput output(pipe);
  ::close(reader);
  EXPECT_THAT(failure([&] { output.write("rows"); }), HasSubstr("Broken pipe: its reader is gone"));
}

TEST(RowOutputTest, PlacesThatCannotBe) {
  const testing::TempDir folder;
  EXPECT_THAT(failure([&] { RowOutput output(folder.path()); }), HasSubstr("is a folder"));
  EXPECT_THAT(failure([&] { RowOutput output(folder / "none/rows.csv"); }),
              HasSubstr("create its folder first"));
}

}  // namespace
}  // namespace dtrain::cli
