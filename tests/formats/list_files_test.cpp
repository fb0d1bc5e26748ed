#include "formats/list_files.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/error.h"
#include "support/temp_dir.h"

namespace dtrain::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ListFiles : public ::testing::Test {
 protected:
  std::string make(const std::string& name, const std::string& bytes = "x") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  static std::vector<std::string> expand(const std::vector<std::string>& inputs) {
    ToolFiles left_out;
    return list_files(inputs, {".jpg", ".png"}, left_out);
  }
  static std::string left_out_of(const std::vector<std::string>& inputs) {
    ToolFiles left_out;
    list_files(inputs, {".jpg"}, left_out);
    return left_out.text();
  }
  static std::string failure(const std::vector<std::string>& inputs) {
    try {
      expand(inputs);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  testing::TempDir folder_;
};

TEST_F(ListFiles, AFolderGivesItsFilesInOrder) {
  const auto b = make("d/b.jpg"), a = make("d/a.PNG"), deep = make("d/c/z.jpg");
  make("d/notes.txt");
  make("d/.hidden.jpg");
  make("d/.cache/x.jpg");
  EXPECT_THAT(expand({at("d")}), ElementsAre(a, b, deep));
  EXPECT_THAT(expand({at("d/b.jpg"), at("d")}), ElementsAre(b, a, deep));
}

TEST_F(ListFiles, LeavesOutAndCountsWhatToolsLeave) {
  const auto a = make("d/a.jpg"), hidden = make("d/.h.jpg");
  make("d/@eaDir/a.jpg/SYNOPHOTO_THUMB_M.jpg");
  make("d/._a.jpg");
  make("d/sub/__MACOSX/a.jpg");
  const auto b = make("d/sub/b.jpg");
  EXPECT_THAT(expand({at("d")}), ElementsAre(a, b));
  EXPECT_EQ(left_out_of({at("d")}), "4 files and folders of tools: ._*, .h.jpg, @eaDir, __MACOSX");
  EXPECT_THAT(expand({at("d/*")}), ElementsAre(a, b));
  EXPECT_EQ(left_out_of({at("d/a*")}), "");
  // What is asked for by its name is taken
  EXPECT_THAT(expand({at("d/.h*")}), ElementsAre(hidden));
  EXPECT_THAT(expand({hidden}), ElementsAre(hidden));
}

TEST_F(ListFiles, ExpandsPatterns) {
  const auto b = make("b.jpg"), a = make("a.jpg"), in = make("dir/c.jpg");
  make("a.txt");
  EXPECT_THAT(expand({at("*.jpg")}), ElementsAre(a, b));
  EXPECT_THAT(expand({at("[b].jpg"), at("?.jpg"), at("d*")}), ElementsAre(b, a, in));
}

TEST_F(ListFiles, AFileWhoseNameIsAPatternIsNotExpanded) {
  const auto odd = make("a[1].jpg");
  make("a1.jpg");
  EXPECT_THAT(expand({odd}), ElementsAre(odd));
}

TEST_F(ListFiles, AFileIsListedWhateverItsName) {
  const auto notes = make("d/notes.txt");
  EXPECT_THAT(expand({notes}), ElementsAre(notes));  // reading it reports what is wrong
}

TEST_F(ListFiles, NoFilesIsAnError) {
  make("d/notes.txt");
  EXPECT_THAT(failure({at("d")}), HasSubstr("has no files that end in .jpg, .png"));
  EXPECT_THAT(failure({at("*.gif")}), HasSubstr("nothing matches"));
  EXPECT_THAT(failure({make("good.jpg"), "none.jpg"}),
              ::testing::EndsWith("no such file or folder: none.jpg"));
}

TEST_F(ListFiles, IgnoresLinksToParentFolders) {
  const auto a = make("d/a.jpg");
  fs::create_directory_symlink(at("d"), at("d/again"));
  fs::create_symlink("self.jpg", at("d/self.jpg"));
  EXPECT_THAT(expand({at("d")}), ElementsAre(a, at("d/self.jpg")));
}

TEST_F(ListFiles, ABrokenLinkIsListedAsAFile) {
  const auto a = make("d/a.jpg");
  fs::create_symlink("nowhere.png", at("d/b.png"));
  EXPECT_THAT(expand({at("d")}), ElementsAre(a, at("d/b.png")));
  EXPECT_THAT(expand({at("d/*")}), ElementsAre(a, at("d/b.png")));
  EXPECT_THAT(expand({at("d/b.png")}), ElementsAre(at("d/b.png")));
}

TEST_F(ListFiles, FollowsLinksToFolders) {
  make("elsewhere/b.jpg");
  const auto a = make("d/a.jpg");
  fs::create_directory_symlink("../elsewhere", at("d/more"));
  EXPECT_THAT(expand({at("d")}), ElementsAre(a, at("d/more/b.jpg")));
}

TEST_F(ListFiles, RecognizesHdf5ByNameOrFirstBytes) {
  EXPECT_TRUE(is_hdf5(make("data", "\x89HDF\r\n\x1a\n and more")));
  EXPECT_TRUE(is_hdf5(make("fake.h5", "no such thing")));  // opening it reports what is wrong
  EXPECT_TRUE(is_hdf5(at("missing.H5")));
  EXPECT_FALSE(is_hdf5(at("missing.jpg")));
  EXPECT_FALSE(is_hdf5(make("short.jpg", "\x89H")));
}

}  // namespace
}  // namespace dtrain::formats
