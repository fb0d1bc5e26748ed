// Folders of photos by class: see class_folders.h for the layout and photo.h for what is stored.

#include "data/convert/class_folders.h"
#include "data/convert/labels.h"
#include "data/convert/list_files.h"
#include "data/convert/photo.h"
#include "data/convert/raw_set.h"
#include "data/convert/read_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

class ImageSet : public ClassFolderSet {
 public:
  ImageSet(const fs::path& folder, int size)
      : ClassFolderSet(folder, {"JPEG or PNG pictures", kPictureExtensions}), size_(size) {}
  Schema schema() const override { return image_schema(size_); }

 protected:
  std::vector<std::byte> input(const fs::path& file) const override {
    return bytes_of(stored_photo(read_file(file), size_).rgb);
  }

 private:
  int size_;
};

}  // namespace

std::unique_ptr<RawSet> open_images(const fs::path& folder, int size) {
  return std::make_unique<ImageSet>(folder, size);
}

}  // namespace dtrain::data
