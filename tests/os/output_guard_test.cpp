#include "os/output_guard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;

class Protect : public ::testing::Test {
 protected:
  fs::path write(const std::string& name) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << name;
    return folder / name;
  }
  void make_run() const {
    for (const char* name :
         {"config.yaml", "environment.json", "metrics.jsonl", "log.txt", ".lock"}) {
      write(std::string("runs/r/") + name);
    }
    for (const char* name : {"MANIFEST.json", "model.safetensors"}) {
      write(std::string("runs/r/checkpoints/step_00000004/") + name);
    }
  }
  static void refused(const fs::path& out, const Inputs& inputs,
                      const std::vector<std::string>& parts) {
    expect_error<OutputError>([&] { protect(out, inputs); }, parts);
  }
  testing::TempDir folder;
};

TEST_F(Protect, AnInputThroughAnyPath) {
  const fs::path data = write("data/d.h5");
  const Inputs inputs{.files = {data}, .folders = {}};
  refused(data, inputs, {"d.h5 is an input of this command", "not even --force", "another name"});
  refused(folder / "data/../data/./d.h5", inputs, {"is the same file as", "an input"});
  fs::create_symlink(data, folder / "link");
  fs::create_hard_link(data, folder / "hard");
  fs::create_directory_symlink(folder / "data", folder / "through");
  for (const char* path : {"link", "hard", "through/d.h5"})
    refused(folder / path, inputs, {path, "is the same file"});
  protect(folder / "data/new.h5", inputs);
  protect(write("other.h5"), inputs);
  protect("", inputs);
  protect("/dev/null", inputs);
}

TEST_F(Protect, AnInputThatIsALinkOrIsMissing) {
  const fs::path data = write("d.h5");
  fs::create_symlink("d.h5", folder / "link");
  fs::create_symlink("gone", folder / "dangling");
  refused(data, {.files = {folder / "link"}, .folders = {}}, {"is the same file as"});
  protect(folder / "gone", {.files = {folder / "dangling", folder / "none"}, .folders = {}});
}

TEST_F(Protect, AFileOfAFolderUnlessItIsAnEarlierOutput) {
  const fs::path picture = write("raw/a/0.jpg"), earlier = write("raw/d.h5");
  const Inputs inputs{.files = {}, .folders = {folder / "raw"}};
  refused(picture, inputs, {"0.jpg is a file of", "raw, which this command reads"});
  protect(folder / "raw/a/new.jpg", inputs);
  protect(write("beside.jpg"), inputs);
  const auto is_earlier = [](const fs::path& file) { return file.extension() == ".h5"; };
  protect(earlier, inputs, is_earlier);
  expect_error<OutputError>([&] { protect(picture, inputs, is_earlier); }, {"0.jpg"});
  refused(earlier, inputs, {"d.h5 is a file of"});

  fs::create_hard_link(picture, folder / "hard.jpg");
  refused(folder / "hard.jpg", inputs, {"hard.jpg is a file of"});
  write("elsewhere/1.jpg");
  fs::create_directory_symlink(folder / "elsewhere", folder / "raw/b");
  // Leads back: each folder is visited once
  fs::create_directory_symlink(folder / "raw", folder / "raw/a/back");
  refused(folder / "elsewhere/1.jpg", inputs, {"1.jpg is a file of"});
  protect(folder / "beside.jpg", inputs);
}

TEST_F(Protect, AFolderWithAnInputInIt) {
  const fs::path source = write("d.h5.partial/a/0.jpg").parent_path();
  refused(folder / "d.h5.partial", {.files = {}, .folders = {source}},
          {"partial holds", "an input of this command. Nothing"});
  refused(folder / "d.h5.partial", {.files = {}, .folders = {folder / "d.h5.partial"}},
          {"is an input"});
  protect(folder / "d.h5.partial", {.files = {}, .folders = {folder.path()}});
}

TEST_F(Protect, CheckpointsAndTheFilesOfARun) {
  make_run();
  for (const char* name : {"config.yaml", "metrics.jsonl", "log.txt", "environment.json", ".lock",
                           "report.html", "events.out.tfevents.1.host", "../../runs/r/log.txt"}) {
    refused(folder / "runs/r" / name, {}, {"is a file that the run", "runs/r maintains"});
  }
  for (const char* name :
       {"checkpoints/new.onnx", "checkpoints/step_00000004/model.safetensors",
        "checkpoints/step_00000009/new.onnx", "checkpoints/step_00000004/a/b/new.onnx"}) {
    refused(folder / "runs/r" / name, {}, {"is among the checkpoints of a run"});
  }
  fs::create_symlink("runs/r/log.txt", folder / "link");
  refused(folder / "link", {}, {"is a file that the run"});
  fs::copy(folder / "runs/r/checkpoints/step_00000004", folder / "copied");
  refused(folder / "copied/model.safetensors", {}, {"is among the checkpoints"});
  for (const char* name : {"runs/r/eval.json", "runs/r/net.onnx", "log.txt", "checkpoints/x"})
    protect(folder / name, {});
}

TEST_F(Protect, ADataFileFromAnotherFormat) {
  const fs::path data = write("d.h5"), by_content = write("other.bin"), by_name = write("no.h5");
  for (const fs::path& file : {data, by_content})
    std::ofstream(file, std::ios::binary) << "\x89HDF\r\n\x1a\n and more";
  fs::create_symlink("d.h5", folder / "link");
  fs::create_hard_link(data, folder / "hard.onnx");
  const auto is_earlier = [](const fs::path&) { return true; };
  for (const fs::path& out : {data, by_content, folder / "link", folder / "hard.onnx"}) {
    refused(out, {},
            {out.filename().string() + " is an HDF5 file, as data sets are", "not even --force"});
    expect_error<OutputError>(
        [&] { protect(out, {.files = {}, .folders = {folder.path()}}, is_earlier); },
        {"HDF5 file"});
    protect_data_file(out, {});
    protect_data_file(out, {.files = {}, .folders = {folder.path()}}, is_earlier);
    expect_error<OutputError>(
        [&] {
          protect_data_file(out, {.files = {data, by_content}, .folders = {}});
        },
        {"an input of this command"});
  }
  protect(by_name, {});
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  protect(folder / "pipe", {});  // and nothing is read from it: that would wait
}

TEST_F(Protect, OtherRunsFromANewRun) {
  make_run();
  fs::create_directory_symlink(folder / "runs/r", folder / "link");
  for (const char* name : {"runs/r/checkpoints", "runs/r/checkpoints/new", "link/checkpoints/new",
                           "runs/r/log.txt", "runs/r/checkpoints/step_00000004/new"}) {
    expect_error<OutputError>([&] { protect_other_runs(folder / name); },
                              {name, "among the files of another run"});
  }
  for (const char* name :
       {"runs/r", "runs/new", "runs/r/new", "runs/checkpoints", "checkpoints/new"}) {
    protect_other_runs(folder / name);
  }
  refused(folder / "runs/r/checkpoints", {}, {"is a folder that the run"});
}

}  // namespace
}  // namespace dtrain
