// Class folders of .npy sequences (class_folders.h).

#include <map>

#include "convert/class_folders.h"
#include "convert/raw_set.h"
#include "convert/stored_sample.h"
#include "core/error.h"
#include "core/parallel.h"
#include "formats/list_files.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

class SequenceSet : public ClassFolderSet {
 public:
  SequenceSet(const catalog::TaskEntry& task, const fs::path& folder, int threads,
              const FolderOptions& options, const ReportProgress& report)
      : ClassFolderSet(task, folder, {".npy sequences", formats::kSequenceExtensions}, options) {
    read_headers(threads, report);
  }
  data::Schema schema() const override { return schema_of(task_, features_); }
  int64_t expected_bytes() const override { return bytes_; }

 protected:
  std::vector<std::byte> input(const fs::path& file) const override {
    return bytes_of(sequence_rows(formats::read_npy(file), features_));
  }

 private:
  // Determines the number of features as that of most files.
  void read_headers(int threads, const ReportProgress& report) {
    std::vector<SequenceShape> shapes(samples().size());
    parallel_for(static_cast<int64_t>(shapes.size()), threads,
                 [&](int64_t i) {
                   const auto at = static_cast<size_t>(i);
                   try {
                     shapes[at] = sequence_shape(formats::read_npy_header(file(at)));
                   } catch (const DataError&) {  // reading the sample reports the error
                   }
                 },
                 report, {.stage = "listing"});
    std::map<int64_t, int64_t> files;  // number of files by number of features
    for (const SequenceShape& shape : shapes) {
      if (shape.rows > 0) ++files[shape.features];
    }
    int64_t most = 0;
    for (const auto& [features, count] : files) {
      if (count > most) features_ = features;
      most = std::max(most, count);
    }
    const data::Schema one = schema();
    for (const SequenceShape& shape : shapes) {
      if (shape.features == features_)
        bytes_ += shape.rows * one.input.row_bytes() + one.target.row_bytes();
    }
  }

  int64_t features_ = 1, bytes_ = 0;
};

}  // namespace

std::unique_ptr<RawSet> open_sequences(const catalog::TaskEntry& task, const fs::path& folder,
                                       int threads, const FolderOptions& options,
                                       const ReportProgress& report) {
  return std::make_unique<SequenceSet>(task, folder, threads, options, report);
}

}  // namespace dtrain::convert
