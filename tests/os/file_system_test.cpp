#include "os/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain {
namespace {

// The real file system, but no file can be renamed.
class FailingRename : public FileSystem {
 public:
  void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    real_file_system().write_durably(path, bytes);
  }
  void sync_folder(const std::filesystem::path& folder) override {
    real_file_system().sync_folder(folder);
  }
  void rename(const std::filesystem::path&, const std::filesystem::path&) override {
    throw OutputError("cannot rename");
  }
  void create_folders(const std::filesystem::path& folder) override {
    real_file_system().create_folders(folder);
  }
  void create_folder(const std::filesystem::path& folder) override {
    real_file_system().create_folder(folder);
  }
  void remove_all(const std::filesystem::path& path) override {
    real_file_system().remove_all(path);
  }
};

TEST(WriteAtomically, ReplacesWholeOrNotAtAll) {
  const testing::TempDir folder;
  write_atomically(real_file_system(), folder / "f", "old");
  EXPECT_EQ(read_text(folder / "f"), "old");
  FailingRename failing;
  EXPECT_THROW(write_atomically(failing, folder / "f", "new"), OutputError);
  EXPECT_EQ(read_text(folder / "f"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "a temporary file was left";
}

TEST(WriteAtomically, RemovesWhatKilledProcessesHaveLeftOfTheFile) {
  const testing::TempDir folder;
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const std::string own = temporary_name("f").string();  // f.tmpPROCESS-HOST
  const std::string here = own.substr(own.find('-')), there = "-0000abcd";
  const auto left = [&](const std::string& name, std::chrono::minutes age) {
    std::ofstream(folder / name) << "half";
    std::filesystem::last_write_time(folder / name,
                                     std::filesystem::file_time_type::clock::now() - age);
    return folder / name;
  };
  using std::chrono::minutes;
  const std::vector<std::filesystem::path> abandoned = {
      left(str("f.tmp", gone, here), minutes(0)),
      left(str("f.tmp", ::getppid(), there), minutes(61))};
  const std::vector<std::filesystem::path> others = {
      left(str("f.tmp", ::getppid(), here), minutes(2)),
      left(str("f.tmp", gone, there), minutes(50)),
      left(str("g.tmp", gone, here), minutes(2)),
      left(str("f.tmp", gone), minutes(2)),
      left(str("f.tmp", gone, "x", here), minutes(2)),
      left(str("f.tmp0", here), minutes(2))};
  write_atomically(real_file_system(), folder / "f", "new");
  for (const auto& path : abandoned) EXPECT_FALSE(is_there(path)) << path;
  for (const auto& path : others) EXPECT_TRUE(is_there(path)) << path;
}

TEST(WriteDurably, AFullDiskIsNamed) {
  try {
    real_file_system().write_durably("/dev/full", std::as_bytes(std::span("x", 1)));
    FAIL() << "writing to a full device succeeded";
  } catch (const OutputError& e) {
    for (const char* text : {"No space left", "/dev/full", "free some space", "another disk"}) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
    EXPECT_EQ(e.exit_code(), 73);
  }
}

TEST(CreateFolder, CreatesOneLevel) {
  const testing::TempDir folder;
  FileSystem& files = real_file_system();
  testing::expect_error<OutputError>([&] { files.create_folder(folder / "a/b"); },
                                     {"a/b", "No such file"});
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  for (int i = 0; i < 2; ++i) files.create_folder(folder / "a");
  files.create_folder(folder / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  std::filesystem::remove(folder / "a/b");
  files.write_durably(folder / "a/b", {});
  testing::expect_error<OutputError>([&] { files.create_folder(folder / "a/b"); }, {"a/b"});
}

TEST(MovingFiles, ReportEachPieceAndEachOperation) {
  const testing::TempDir folder;
  int reports = 0;
  const auto files = make_moving_files([&] { ++reports; }, "choose another --run.folder", 10);
  const std::string text = "in pieces of ten bytes: 35 of them.";
  files->write_durably(folder / "f", std::as_bytes(std::span(text)));
  EXPECT_EQ(read_text(folder / "f"), text);
  EXPECT_EQ(reports, 4);
  files->write_durably(folder / "g", std::as_bytes(std::span(text)).first(10));
  EXPECT_EQ(reports, 5);
  files->create_folders(folder / "d/e");
  files->create_folder(folder / "d/e/f");
  files->rename(folder / "f", folder / "d/f");
  files->sync_folder(folder / "d");
  files->remove_all(folder / "d");
  files->note_read();
  EXPECT_EQ(reports, 11);
  EXPECT_FALSE(std::filesystem::exists(folder / "d"));
  testing::expect_error<OutputError>(
      [&] { files->write_durably("/dev/full", std::as_bytes(std::span(text))); },
      {"No space left on device: choose another --run.folder"});
}

TEST(CheckNewFile, RefusesWhatARenameWouldDestroy) {
  const testing::TempDir folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const bool replace : {false, true}) {
    EXPECT_THROW(check_new_file("/dev/null", replace), OutputError);
    EXPECT_THROW(check_new_file(pipe, replace), OutputError);
    EXPECT_THROW(check_new_file(folder.path(), replace), OutputError);
    EXPECT_NO_THROW(check_new_file(folder / "new", replace));
    EXPECT_NO_THROW(check_output("/dev/null", replace));
  }
  write_atomically(real_file_system(), folder / "f", "x");
  EXPECT_THROW(check_new_file(folder / "f", false), OutputError);
  EXPECT_NO_THROW(check_new_file(folder / "f", true));
}

TEST(LinkTarget, FollowsLinksWhetherOrNotSomethingIsThere) {
  namespace fs = std::filesystem;
  const testing::TempDir folder;
  fs::create_directory(folder / "d");
  fs::create_symlink("d/second", folder / "first");
  fs::create_symlink("file", folder / "d/second");
  EXPECT_EQ(link_target(folder / "first"), folder / "d/file");
  write_atomically(real_file_system(), folder / "d/file", "x");
  EXPECT_EQ(link_target(folder / "first"), folder / "d/file");
  EXPECT_EQ(link_target(folder / "d/file"), folder / "d/file");
  fs::create_symlink(folder / "d/file", folder / "absolute");
  EXPECT_EQ(link_target(folder / "absolute"), folder / "d/file");
  fs::create_symlink("self", folder / "self");
  EXPECT_NO_THROW(link_target(folder / "self"));
  EXPECT_EQ(link_target("plain"), "plain");
}

TEST(ReadText, AnEmptyFileIsEmptyAndAnAbsentOneThrows) {
  const testing::TempDir folder;
  write_atomically(real_file_system(), folder / "f", "");
  EXPECT_EQ(read_text(folder / "f"), "");
  EXPECT_THROW(read_text(folder / "absent"), Error);
}

}  // namespace
}  // namespace dtrain
