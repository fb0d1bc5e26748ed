#include "formats/tool_files.h"

#include <gtest/gtest.h>

namespace dtrain::formats {
namespace {

TEST(ToolFiles, KnowsTheirNamesInAnyCase) {
  for (const char* name :
       {"@eaDir", "__MACOSX", "lost+found", ".ipynb_checkpoints", ".DS_Store", "_DS_Store",
        "Thumbs.db", "THUMBS.DB", "._name.jpg", "desktop.ini", "$RECYCLE.BIN",
        "System Volume Information", "#recycle", "@Recycle", "Icon\r", "__pycache__", ".hidden"}) {
    EXPECT_TRUE(left_by_tool(name)) << name;
    EXPECT_TRUE(left_by_tool(std::filesystem::path("cat/more") / name)) << name;
  }
  for (const char* name : {"cat", "eaDir", "MACOSX", "lost", "thumbs", "Thumbs.db.jpg", "_name.jpg",
                           "icon", "recycle", "__init__", ".hidden/cat.jpg"}) {
    EXPECT_FALSE(left_by_tool(name)) << name;
  }
}

TEST(ToolFiles, AreCountedInOneLine) {
  ToolFiles files;
  EXPECT_EQ(files.text(), "");
  EXPECT_FALSE(files.takes("d/cat"));
  EXPECT_EQ(files.text(), "");
  EXPECT_TRUE(files.takes("d/@eaDir"));
  EXPECT_EQ(files.text(), "1 file or folder of tools: @eaDir");
  for (int i = 0; i < 1200; ++i) files.takes("d/._" + std::to_string(i) + ".jpg");
  files.takes("a/.DS_Store");
  files.takes("b/.DS_Store");
  EXPECT_EQ(files.text(), "1 203 files and folders of tools: 1 200 x ._*, 2 x .DS_Store, @eaDir");
  files.takes("Thumbs.db");
  files.takes(".a");
  EXPECT_EQ(files.text(),
            "1 205 files and folders of tools: 1 200 x ._*, 2 x .DS_Store, .a, @eaDir, others");
}

}  // namespace
}  // namespace dtrain::formats
