// Folders of photos by class: see class_folders.h for the layout and photo.h for what is stored.

#include "data/convert/class_folders.h"
#include "data/convert/labels.h"
#include "data/convert/photo.h"
#include "data/convert/raw_set.h"
#include "data/convert/read_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

class ImageSet : public RawSet {
 public:
  ImageSet(fs::path folder, int size)
      : folder_(std::move(folder)), size_(size), listed_(list_class_folders(folder_, "JPEG or PNG pictures")) {}

  const std::vector<RawSample>& samples() const override { return listed_.samples; }
  std::vector<std::string> classes() const override { return listed_.classes; }
  Schema schema() const override { return image_schema(size_); }
  int64_t expected_bytes() const override {
    const Schema one = schema();
    return static_cast<int64_t>(listed_.samples.size()) * (one.input.row_bytes() + one.target.row_bytes());
  }

  Record read(size_t sample) const override {
    const RawSample& raw = listed_.samples[sample];
    const Image image = stored_photo(read_file(folder_ / raw.name), size_);
    const auto pixels = std::as_bytes(std::span(image.rgb));
    return {.input = {pixels.begin(), pixels.end()}, .target = class_target(raw.label)};
  }

 private:
  fs::path folder_;
  int size_;
  ClassFolders listed_;
};

}  // namespace

std::unique_ptr<RawSet> open_images(const fs::path& folder, int size) {
  return std::make_unique<ImageSet>(folder, size);
}

}  // namespace dtrain::data
