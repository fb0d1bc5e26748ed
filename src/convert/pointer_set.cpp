// Sets with orders from one .npz file (pointer_file.h).

#include "convert/pointer_file.h"
#include "convert/raw_set.h"
#include "convert/stored_sample.h"
#include "core/error.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

PointerFile opened(const fs::path& file) {
  try {
    return PointerFile(file, true);
  } catch (const DataError& error) {
    throw DataError(str(file.string(), ": ", error.what()));
  }
}

class PointerSets : public RawSet {
 public:
  PointerSets(const catalog::TaskEntry& task, const fs::path& file)
      : RawSet(task), file_(opened(file)) {
    samples_ = SampleList::elements_of(file.filename().string(), static_cast<size_t>(file_.sets()));
    samples_.set_splits(file_.take_splits());
    const int64_t bytes_of_row = schema().input.row_bytes() + schema().target.row_bytes();
    for (int64_t i = 0; i < file_.sets(); ++i) bytes_ += file_.length(i) * bytes_of_row;
  }

  const SampleList& samples() const override { return samples_; }
  bool samples_are_files() const override { return false; }
  data::Schema schema() const override { return schema_of(task_, kPointerFeatures); }
  int64_t expected_bytes() const override { return bytes_; }
  std::string content_key() const override { return std::to_string(file_.checksum()); }

  Record read(size_t sample) const override {
    const auto set = static_cast<int64_t>(sample);
    return {.input = bytes_of(file_.features(set)), .target = bytes_of(file_.order(set))};
  }

 private:
  PointerFile file_;
  SampleList samples_;
  int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<RawSet> open_pointer_sets(const catalog::TaskEntry& task, const fs::path& file) {
  return std::make_unique<PointerSets>(task, file);
}

}  // namespace dtrain::convert
