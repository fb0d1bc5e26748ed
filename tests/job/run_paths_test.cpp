#include "job/run_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class Paths : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder / "project/runs/r/checkpoints/step_00000004");
    write(R"({"absolute_paths": {"data": "/old/d.h5", "module_file": "/old/net.pt"}})");
  }
  void write(const std::string& text) const {
    std::ofstream(folder / "project/runs/r/environment.json") << text;
  }
  RunPaths of(const std::string& runs_folder,
              const std::string& checkpoint = "step_00000004") const {
    return run_paths_of(folder / "project/runs/r/checkpoints" / checkpoint, runs_folder);
  }
  testing::TempDir folder;
};

TEST_F(Paths, AreThoseOfTheRun) {
  for (const char* name : {"step_00000004", "step_00000004/", "../checkpoints/step_00000004"}) {
    const RunPaths paths = of("runs", name);
    EXPECT_EQ(paths.run, folder / "project/runs/r") << name;
    EXPECT_EQ(paths.origin, folder / "project");
    EXPECT_EQ(paths.data, "/old/d.h5");
    EXPECT_EQ(paths.module_file, "/old/net.pt");
  }
  EXPECT_EQ(of(".").origin, folder / "project/runs");
  EXPECT_EQ(of("a/../project/runs/").origin, folder.path());
  EXPECT_EQ(of("/elsewhere/runs").origin, "");
  EXPECT_EQ(of("../runs").origin, "");
  const RunPaths again = run_paths_from(to_text(of("runs")));
  EXPECT_EQ(again.run, of("runs").run);
  EXPECT_EQ(again.module_file, "/old/net.pt");
  EXPECT_EQ(run_paths_from(to_text({})).module_file, "");
}

TEST_F(Paths, DoNotNeedAnIntactEnvironment) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"absolute_paths": 3})", R"({"absolute_paths": {"data": [1]}})"}) {
    write(text);
    EXPECT_EQ(of("runs").data, "") << text;
    EXPECT_EQ(of("runs").origin, folder / "project");
  }
  EXPECT_EQ(run_paths_of(folder / "copied/step_00000004", "runs").run, "");
  write(R"({"absolute_paths": {"data": "/old/d.h5"}, "more": ")" + std::string(2 << 20, 'x') +
        "\"}");
  EXPECT_EQ(of("runs").data, "") << "more than any run writes is not read";
}

TEST_F(Paths, PlacesAreTriedInOrderAndOnce) {
  const RunPaths paths{.run = "/p/runs/r", .origin = "/p", .data = "/old/d.h5", .module_file = ""};
  EXPECT_THAT(places_of("data/d.h5", paths, paths.data),
              ElementsAre("data/d.h5", "/p/data/d.h5", "/p/runs/r/data/d.h5", "/old/d.h5"));
  EXPECT_THAT(places_of("/old/../old/d.h5", paths, paths.data), ElementsAre("/old/../old/d.h5"));
  EXPECT_THAT(places_of("d.h5", {}, ""), ElementsAre("d.h5"));
  const fs::path here = fs::current_path();
  const RunPaths own{.run = (here / "runs/r").string(),
                     .origin = here.string(),
                     .data = (here / "d.h5").string(),
                     .module_file = ""};
  EXPECT_THAT(places_of("d.h5", own, own.data),
              ElementsAre("d.h5", (here / "runs/r/d.h5").string()));
}

}  // namespace
}  // namespace dtrain::job
