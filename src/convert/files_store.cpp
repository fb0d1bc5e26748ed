#include "convert/files_store.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <optional>

#include "convert/head_pose_set.h"
#include "convert/pointer_file.h"
#include "convert/stored_sample.h"
#include "core/check.h"
#include "data/store.h"
#include "formats/list_files.h"
#include "formats/read_file.h"
#include "text/number_text.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

int64_t number_of(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) {
    const std::optional<int64_t> value = parse_number<int64_t>(found->second);
    if (value && *value > 0) return *value;
  }
  throw DataError(
      str("the network's metadata lack ", key, found == metadata.end() ? "" : ": " + found->second,
          ", which is needed to read raw files. Convert them and give the data file instead"));
}

// One sample: its number of rows, and a function that reads its bytes or throws the reason why
// it cannot.
struct FileSample {
  std::string name;
  int64_t rows = 1;
  std::function<std::vector<std::byte>()> read;
};

class FilesStore final : public data::Store, public data::Origin {
 public:
  FilesStore(data::Schema schema, Metadata metadata, fs::path first,
             std::vector<FileSample> samples)
      : schema_(std::move(schema)),
        metadata_(std::move(metadata)),
        path_(std::move(first)),
        samples_(std::move(samples)) {
    schema_.samples = static_cast<int64_t>(samples_.size());
  }

  const data::Schema& schema() const override { return schema_; }
  const data::Origin& origin() const override { return *this; }
  const fs::path& path() const override { return path_; }
  int64_t input_rows(int64_t id) const override { return sample(id).rows; }
  int64_t target_rows(int64_t id) const override {
    return schema_.target.variable() ? sample(id).rows : 1;
  }

  void read_input(int64_t id, std::span<std::byte> out) const override {
    std::vector<std::byte> bytes;
    try {
      bytes = sample(id).read();
    } catch (const DataError& error) {
      throw DataError(str(sample(id).name, ": ", error.what()));
    } catch (const std::bad_alloc&) {
      throw DataError(str(sample(id).name, ": does not fit into memory"));
    }
    if (bytes.size() != out.size()) {
      throw DataError(str(sample(id).name, ": was replaced by another file while in use"));
    }
    std::memcpy(out.data(), bytes.data(), bytes.size());
  }

  void read_target(int64_t id, std::span<std::byte> out) const override {
    DTRAIN_CHECK(static_cast<int64_t>(out.size()) == target_bytes(id));
    const int64_t unknown = -1;
    const float no_number = std::numeric_limits<float>::quiet_NaN();
    const bool number = schema_.target.element == data::Element::kFloat32;
    const auto one =
        number ? std::as_bytes(std::span(&no_number, 1)) : std::as_bytes(std::span(&unknown, 1));
    for (size_t at = 0; at < out.size(); at += one.size())
      std::memcpy(out.data() + at, one.data(), one.size());
  }

  uint64_t checksum(int64_t id) const override { return data::checksum_as_read(*this, id); }
  std::vector<int64_t> split(const std::string&) const override { return {}; }
  std::string name(int64_t id) const override { return sample(id).name; }
  std::string source(int64_t id) const override { return sample(id).name; }
  int64_t group(int64_t id) const override { return id; }
  std::string attribute(const std::string& name) const override {
    const auto found = metadata_.find(name);
    return found == metadata_.end() ? "" : found->second;
  }
  void verify(const ReportProgress&) const override {
    for (int64_t id = 0; id < schema_.samples; ++id) static_cast<void>(checksum(id));
  }

 private:
  const FileSample& sample(int64_t id) const {
    DTRAIN_CHECK(id >= 0 && id < schema_.samples, "sample ", id);
    return samples_[static_cast<size_t>(id)];
  }

  data::Schema schema_;
  Metadata metadata_;
  fs::path path_;
  std::vector<FileSample> samples_;
};

FileSample bad(const std::string& name, const std::string& reason) {
  return {.name = name, .rows = 1, .read = [reason]() -> std::vector<std::byte> {
            throw DataError(reason);
          }};
}

using ReadPicture = std::function<formats::Image(const fs::path&, int size)>;

formats::Image bare_photo(const fs::path& file, int size) {
  return stored_photo(formats::read_file(file), size);
}

// `layout` "": pictures as they are.
ReadPicture reader_of(const std::string& layout) {
  if (layout.empty()) return bare_photo;
  return layout == "biwi" ? biwi_head : landmark_head;
}

std::vector<FileSample> pictures(const std::vector<fs::path>& files, int size,
                                 const ReadPicture& read) {
  std::vector<FileSample> samples;
  for (const fs::path& file : files) {
    samples.push_back({.name = file.string(), .rows = 1, .read = [file, size, read] {
                         return bytes_of(read(file, size).rgb);
                       }});
  }
  return samples;
}

std::vector<FileSample> sequences(const std::vector<fs::path>& files, int64_t features) {
  std::vector<FileSample> samples;
  for (const fs::path& file : files) {
    try {
      const SequenceShape shape = sequence_shape(formats::read_npy_header(file));
      samples.push_back({.name = file.string(), .rows = shape.rows, .read = [file, features] {
                           return bytes_of(sequence_rows(formats::read_npy(file), features));
                         }});
      if (shape.features != features) {
        samples.back() =
            bad(file.string(),
                str("has ", shape.features, " features per row, the network expects ", features));
      }
    } catch (const DataError& error) {
      samples.push_back(bad(file.string(), error.what()));
    }
  }
  return samples;
}

std::vector<FileSample> sets(const std::vector<fs::path>& files) {
  std::vector<FileSample> samples;
  for (const fs::path& file : files) {
    try {
      const auto opened = std::make_shared<const PointerFile>(file, false);
      for (int64_t i = 0; i < opened->sets(); ++i) {
        samples.push_back({.name = str(file.string(), '#', i),
                           .rows = std::max<int64_t>(opened->length(i), 1),
                           .read = [opened, i] { return bytes_of(opened->features(i)); }});
      }
      if (opened->sets() == 0) samples.push_back(bad(file.string(), "contains no sets"));
    } catch (const DataError& error) {
      samples.push_back(bad(file.string(), error.what()));
    }
  }
  return samples;
}

}  // namespace

std::vector<std::string> raw_extensions(catalog::SampleKind sample) {
  if (sample == catalog::SampleKind::kSet) return {".npz"};
  return sample == catalog::SampleKind::kSequence ? formats::kSequenceExtensions
                                                  : formats::kPictureExtensions;
}

std::unique_ptr<data::Store> open_files(const RawSamples& kind, const Metadata& metadata,
                                        const std::vector<std::string>& names,
                                        const std::string& layout) {
  if (names.empty()) throw DataError("no files are given");
  for (const std::string& name : names) {
    std::error_code code;  // files may be missing on this machine if another one listed them
    if (!fs::exists(fs::symlink_status(name, code)))
      throw DataError("no such file or folder: " + name);
    if (!formats::is_hdf5(name)) continue;
    throw DataError(str(name, " is an HDF5 file, not a raw one ending in ",
                        join(raw_extensions(kind.sample), ", "),
                        ". Give a dtrain data file alone, without other files"));
  }
  const std::vector<fs::path> files(names.begin(), names.end());
  const auto store = [&](int64_t width, std::vector<FileSample> samples) {
    return std::make_unique<FilesStore>(schema_of(kind.task, kind.sample, width), metadata,
                                        files.front(), std::move(samples));
  };
  if (kind.sample == catalog::SampleKind::kSet) return store(kPointerFeatures, sets(files));
  if (kind.sample == catalog::SampleKind::kSequence) {
    const int64_t features = number_of(metadata, "features");
    return store(features, sequences(files, features));
  }
  const int64_t size =
      number_of(metadata, metadata.contains("stored_size") ? "stored_size" : "image_size");
  return store(size, pictures(files, static_cast<int>(size), reader_of(layout)));
}

}  // namespace dtrain::convert
