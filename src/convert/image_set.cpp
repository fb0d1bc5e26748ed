// Class folders of photos (class_folders.h), stored as stored_photo() makes them.

#include "convert/class_folders.h"
#include "convert/raw_set.h"
#include "convert/stored_sample.h"
#include "formats/list_files.h"
#include "formats/read_file.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

class ImageSet : public ClassFolderSet {
 public:
  ImageSet(const catalog::TaskEntry& task, const fs::path& folder, int size,
           const FolderOptions& options)
      : ClassFolderSet(task, folder, {"JPEG, PNG or WebP pictures", formats::kPictureExtensions},
                       options),
        size_(size) {}
  data::Schema schema() const override { return schema_of(task_, size_); }

 protected:
  std::vector<std::byte> input(const fs::path& file) const override {
    return bytes_of(stored_photo(formats::read_file(file), size_).rgb);
  }

 private:
  int size_;
};

}  // namespace

std::unique_ptr<RawSet> open_images(const catalog::TaskEntry& task, const fs::path& folder,
                                    int size, const FolderOptions& options) {
  return std::make_unique<ImageSet>(task, folder, size, options);
}

}  // namespace dtrain::convert
