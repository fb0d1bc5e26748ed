#include "data/hdf5/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "core/check.h"
#include "core/hash.h"
#include "data/hdf5/h5_handles.h"
#include "data/hdf5/layout.h"
#include "os/file_descriptor.h"
#include "os/file_system.h"

namespace dtrain::data {
namespace {

using Shape = std::vector<hsize_t>;

// With more, the library moves them to a structure that is harder to read
constexpr unsigned kAttributesInHeader = 64;

class FileWriter : public Writer {
 public:
  FileWriter(const std::filesystem::path& file, const Schema& schema, const RowCounts& rows)
      : file_(file),
        temporary_(temporary_name(file)),
        schema_(schema),
        written_(static_cast<size_t>(schema.samples)),
        inputs_{schema.input, rows_in(schema.input, rows.input)},
        targets_{schema.target, rows_in(schema.target, rows.target)} {
    DTRAIN_CHECK(schema.samples > 0 && storable_input(schema.input) &&
                 storable_target(schema.target));
    if (file.has_parent_path()) real_file_system().create_folders(file.parent_path());
    try {
      create_datasets();
      open_and_reserve();
      write_offsets(inputs_, rows.input);
      write_offsets(targets_, rows.target);
    } catch (...) {
      remove_temporary();
      throw;
    }
  }

  ~FileWriter() override {
    if (!finished_) remove_temporary();
  }

  void write(int64_t first, std::span<const Sample> samples) override {
    const auto count = static_cast<int64_t>(samples.size());
    DTRAIN_CHECK(first >= 0 && count <= schema_.samples - first);
    write_rows(inputs_, first, samples, &Sample::input);
    write_rows(targets_, first, samples, &Sample::target);
    std::vector<uint64_t> checksums;
    for (const Sample& sample : samples)
      checksums.push_back(sample_checksum(sample.input, sample.target));
    write_at(checksums_at_ + first * kWord, std::as_bytes(std::span(checksums)));
    std::fill_n(written_.begin() + first, count, 1);
  }

  void finish(const Index& index) override {
    check(index);
    write_index(index);
    if (const int code = out_.sync()) fail_to_write("fsync", temporary_, code);
    if (const int code = out_.close()) fail_to_write("close", temporary_, code);
    put_in_place(real_file_system(), temporary_, file_);
    finished_ = true;
  }

 private:
  // Inputs or targets, and their place in the file.
  struct Stored {
    Field field;
    int64_t rows = 0;  // total over all samples
    int64_t values_at = 0, offsets_at = 0;
  };

  static constexpr int64_t kWord = 8;      // bytes of an offset, a group, an id or a checksum
  static constexpr int64_t kPiece = 8192;  // values that are in memory at once

  int64_t rows_in(const Field& field, const std::function<int64_t(int64_t)>& rows_of) const {
    DTRAIN_CHECK(field.variable() == static_cast<bool>(rows_of));
    if (!field.variable()) return schema_.samples;
    int64_t rows = 0;
    for (int64_t id = 0; id < schema_.samples; ++id) {
      const int64_t more = rows_of(id);
      DTRAIN_CHECK(more >= 0);
      rows += more;
    }
    DTRAIN_CHECK(rows > 0, "no sample has a row");
    return rows;
  }

  // They are kept in the file alone: write() reads those that it needs.
  void write_offsets(const Stored& stored, const std::function<int64_t(int64_t)>& rows_of) const {
    if (!stored.field.variable()) return;
    int64_t offset = 0;
    const auto next = [&](int64_t id) { return id == 0 ? 0 : offset += rows_of(id - 1); };
    write_words(stored.offsets_at, {schema_.samples + 1, next}, 0);
  }

  // Writes the values and returns their hash.
  uint64_t write_words(int64_t place, const Column<int64_t>& column, uint64_t seed) const {
    RunningHash hash(seed);
    in_pieces(column, [&](int64_t first, std::span<const int64_t> values) {
      write_at(place + first * kWord, std::as_bytes(values));
      hash.add(std::as_bytes(values));
    });
    return hash.value();
  }

  static void in_pieces(const Column<int64_t>& column,
                        const std::function<void(int64_t, std::span<const int64_t>)>& use) {
    std::vector<int64_t> values;
    for (int64_t first = 0; first < column.size; first += kPiece) {
      values.clear();
      for (int64_t i = first; i < std::min(column.size, first + kPiece); ++i)
        values.push_back(column.at(i));
      use(first, values);
    }
  }

  // The hash of `words` words that are in the file.
  uint64_t hash_of(int64_t place, int64_t words, uint64_t seed) const {
    RunningHash hash(seed);
    for (int64_t first = 0; first < words; first += kPiece) {
      const std::vector<int64_t> piece =
          read_words(place + first * kWord, std::min(kPiece, words - first));
      hash.add(std::as_bytes(std::span(piece)));
    }
    return hash.value();
  }

  std::vector<int64_t> read_words(int64_t place, int64_t count) const {
    std::vector<int64_t> words(static_cast<size_t>(count));
    const int code = out_.read_all_at(std::as_writable_bytes(std::span(words)), place);
    if (code != 0)
      throw OutputError(
          str("cannot read ", temporary_.string(), " back: it was changed while in use"));
    return words;
  }

  void write_rows(const Stored& stored, int64_t first, std::span<const Sample> samples,
                  std::span<const std::byte> Sample::*part) const {
    const int64_t row_bytes = stored.field.row_bytes();
    std::vector<int64_t> offsets;
    if (stored.field.variable()) {
      offsets =
          read_words(stored.offsets_at + first * kWord, static_cast<int64_t>(samples.size()) + 1);
    }
    for (size_t i = 0; i < samples.size(); ++i) {
      const int64_t rows = offsets.empty() ? 1 : offsets[i + 1] - offsets[i];
      DTRAIN_CHECK(static_cast<int64_t>((samples[i].*part).size()) == rows * row_bytes, "sample ",
                   first + static_cast<int64_t>(i), " of ", (samples[i].*part).size(),
                   " bytes, not ", rows * row_bytes);
    }
    const int64_t place =
        stored.values_at + (offsets.empty() ? first : offsets.front()) * row_bytes;
    if (samples.size() == 1) return write_at(place, samples[0].*part);
    std::vector<std::byte> bytes;
    for (const Sample& sample : samples)
      bytes.insert(bytes.end(), (sample.*part).begin(), (sample.*part).end());
    write_at(place, bytes);
  }

  [[noreturn]] void fail_hdf5(const std::string& operation) const {
    const std::string reason = h5::last_error();
    if (const int code = h5::errno_in(reason); code != 0)
      fail_to_write(operation, temporary_, code);
    throw OutputError(str("cannot ", operation, " ", temporary_.string(), ": ", reason));
  }

  void remove_temporary() noexcept {
    out_.close();
    ::unlink(temporary_.c_str());
  }

  // Creates the datasets whose sizes are known. Samples are then written with pwrite at
  // fixed offsets.
  void create_datasets() {
    const h5::SilentErrors silent;
    const h5::Handle access = h5::file_access(), creation = without_times(H5P_FILE_CREATE);
    H5Pset_attr_phase_change(creation.get(), kAttributesInHeader, 0);
    h5::Handle file(H5Fcreate(temporary_.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
                    H5Fclose);
    if (!file) fail_hdf5("create");
    create_stored(file, "/inputs", inputs_);
    create_stored(file, "/targets", targets_);
    const Shape one_each{static_cast<hsize_t>(schema_.samples)};
    checksums_at_ = offset_of(create_dataset(file, "/checksums", H5T_STD_U64LE, one_each));
    group_ = offset_of(create_dataset(file, "/group", H5T_STD_I64LE, one_each));
    if (!file.close()) fail_hdf5("close");
  }

  void create_stored(const h5::Handle& file, const std::string& name, Stored& stored) const {
    const bool variable = stored.field.variable();
    Shape shape{static_cast<hsize_t>(stored.rows)};
    shape.insert(shape.end(), stored.field.shape.begin() + (variable ? 1 : 0),
                 stored.field.shape.end());
    if (variable) create_group(file, name.c_str());
    stored.values_at = offset_of(create_dataset(file, variable ? name + "/values" : name,
                                                type_of(stored.field.element), shape));
    if (variable) {
      stored.offsets_at = offset_of(create_dataset(file, name + "/offsets", H5T_STD_I64LE,
                                                   {static_cast<hsize_t>(schema_.samples) + 1}));
    }
  }

  static hid_t type_of(Element element) {
    return element == Element::kUint8     ? H5T_STD_U8LE
           : element == Element::kFloat32 ? H5T_IEEE_F32LE
                                          : H5T_STD_I64LE;
  }

  // Without times, equal samples give equal files.
  static h5::Handle without_times(hid_t properties) {
    h5::Handle creation(H5Pcreate(properties), H5Pclose);
    H5Pset_obj_track_times(creation.get(), false);
    return creation;
  }

  h5::Handle create_dataset(const h5::Handle& file, const std::string& name, hid_t type,
                            const Shape& shape) const {
    const h5::Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                           H5Sclose);
    const h5::Handle creation = without_times(H5P_DATASET_CREATE);
    H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
    h5::Handle dataset(H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT,
                                  creation.get(), H5P_DEFAULT),
                       H5Dclose);
    if (!dataset) fail_hdf5(str("create ", name, " in"));
    return dataset;
  }

  int64_t offset_of(const h5::Handle& dataset) const {
    const haddr_t offset = H5Dget_offset(dataset.get());
    DTRAIN_CHECK(offset != HADDR_UNDEF);
    return static_cast<int64_t>(offset);
  }

  // Reserves all disk blocks now, so that a full disk is reported before hours of converting.
  void open_and_reserve() {
    if (const int code = out_.open(temporary_, O_RDWR)) fail_to_write("open", temporary_, code);
    struct stat info {};
    if (::fstat(out_.get(), &info) != 0) fail_to_write("stat", temporary_, errno);
    if (const int code = ::posix_fallocate(out_.get(), 0, info.st_size)) {
      fail_to_write(str("reserve ", human_bytes(static_cast<double>(info.st_size)), " for"),
                    temporary_, code);
    }
  }

  void write_at(int64_t offset, std::span<const std::byte> bytes) const {
    if (const int code = out_.write_all_at(bytes, offset)) fail_to_write("write", temporary_, code);
  }

  void check(const Index& index) const {
    const auto samples = static_cast<size_t>(schema_.samples);
    DTRAIN_CHECK(index.source.size == schema_.samples && index.group.size == schema_.samples);
    for (size_t id = 0; id < samples; ++id)
      DTRAIN_CHECK(written_[id], "sample ", id, " was not written");
    std::vector<bool> in_split(samples);
    for (const auto& [name, ids] : index.splits) {
      const bool known = std::ranges::find(kSplitNames, name) != std::end(kSplitNames);
      DTRAIN_CHECK(known, "split ", name);
      for (int64_t i = 0; i < ids.size; ++i) {
        const int64_t id = ids.at(i);
        DTRAIN_CHECK(id >= 0 && id < schema_.samples && !in_split[static_cast<size_t>(id)],
                     "sample ", id, " in ", name);
        in_split[static_cast<size_t>(id)] = true;
      }
    }
    for (const char* name : {"format", "version", "task", "num_samples", "checksum",
                             "index_checksum", kAttributesChecksum}) {
      DTRAIN_CHECK(index.attributes.count(name) == 0, "attribute ", name);
    }
  }

  // Writes what is known only at the end: splits, sources, groups and attributes. The hash of all
  // of them is chained as index_checksum() says (layout.h).
  void write_index(const Index& index) const {
    const h5::SilentErrors silent;
    const h5::Handle access = h5::file_access();
    h5::Handle file(H5Fopen(temporary_.c_str(), H5F_ACC_RDWR, access.get()), H5Fclose);
    if (!file) fail_hdf5("open");
    create_group(file, "/source");
    uint64_t hash = write_texts(file, "/source", index.source);
    hash = write_words(group_, index.group, hash);
    create_group(file, "/splits");
    for (const auto& [name, ids] : index.splits) {
      hash = write_column(file, "/splits/" + name, ids, xxh64(name, hash));
    }
    for (const Stored& stored : {std::cref(inputs_), std::cref(targets_)}) {
      if (stored.field.variable()) hash = hash_of(stored.offsets_at, schema_.samples + 1, hash);
    }
    Attributes attributes = index.attributes;
    attributes["format"] = "dtrain";
    attributes["task"] = schema_.task;
    attributes["version"] = kFormatVersion;
    attributes["num_samples"] = schema_.samples;
    attributes["checksum"] = hash_of(checksums_at_, schema_.samples, 0);
    attributes["index_checksum"] = hash;
    attributes[kAttributesChecksum] = attributes_checksum(attributes);
    for (const auto& [name, value] : attributes) write_attribute(file, name, value);
    if (!file.close()) fail_hdf5("close");
  }

  void create_group(const h5::Handle& file, const char* name) const {
    const h5::Handle creation = without_times(H5P_GROUP_CREATE);
    const h5::Handle group(H5Gcreate2(file.get(), name, H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                           H5Gclose);
    if (!group) fail_hdf5(str("create ", name, " in"));
  }

  // Writes `bytes` and `offsets` of the texts; returns the chained hash of both.
  uint64_t write_texts(const h5::Handle& file, const std::string& group,
                       const Column<std::string>& texts) const {
    int64_t bytes = 0;
    for (int64_t i = 0; i < texts.size; ++i) bytes += static_cast<int64_t>(texts.at(i).size());
    h5::Handle dataset =
        create_dataset(file, group + "/bytes", H5T_STD_U8LE, {static_cast<hsize_t>(bytes)});
    RunningHash hash;
    std::string piece;
    int64_t place = 0;
    for (int64_t i = 0; i < texts.size; ++i) {
      piece += texts.at(i);
      if (static_cast<int64_t>(piece.size()) < kPiece * kWord && i + 1 < texts.size) continue;
      write_part(dataset, group + "/bytes", H5T_STD_U8LE, place, std::as_bytes(std::span(piece)));
      hash.add(std::as_bytes(std::span(piece)));
      place += static_cast<int64_t>(piece.size());
      piece.clear();
    }
    if (!dataset.close()) fail_hdf5(str("close ", group, "/bytes in"));
    int64_t offset = 0;
    const auto next = [&](int64_t i) {
      return i == 0 ? 0 : offset += static_cast<int64_t>(texts.at(i - 1).size());
    };
    return write_column(file, group + "/offsets", {texts.size + 1, next}, hash.value());
  }

  // Returns the hash of the values.
  uint64_t write_column(const h5::Handle& file, const std::string& name,
                        const Column<int64_t>& column, uint64_t seed) const {
    h5::Handle dataset =
        create_dataset(file, name, H5T_STD_I64LE, {static_cast<hsize_t>(column.size)});
    RunningHash hash(seed);
    in_pieces(column, [&](int64_t first, std::span<const int64_t> values) {
      write_part(dataset, name, H5T_STD_I64LE, first, std::as_bytes(values));
      hash.add(std::as_bytes(values));
    });
    if (!dataset.close()) fail_hdf5(str("close ", name, " in"));
    return hash.value();
  }

  // Writes elements from element `first`.
  void write_part(const h5::Handle& dataset, const std::string& name, hid_t type, int64_t first,
                  std::span<const std::byte> bytes) const {
    if (bytes.empty()) return;
    const h5::Handle space(H5Dget_space(dataset.get()), H5Sclose);
    const auto start = static_cast<hsize_t>(first),
               count = static_cast<hsize_t>(bytes.size() / H5Tget_size(type));
    const h5::Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
    if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr) < 0 ||
        H5Dwrite(dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, bytes.data()) < 0) {
      fail_hdf5(str("write ", name, " to"));
    }
  }

  void write_attribute(const h5::Handle& file, const std::string& name,
                       const Attribute& value) const {
    if (const auto* text = std::get_if<std::string>(&value)) {
      // Of fixed length: to read one of variable length, the library follows addresses in the file.
      const h5::Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
      H5Tset_size(type.get(), std::max<size_t>(text->size(), 1));
      H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
      H5Tset_cset(type.get(), H5T_CSET_UTF8);
      write_attribute(file, name, type.get(), text->c_str());
    } else if (const auto* number = std::get_if<int64_t>(&value)) {
      write_attribute(file, name, H5T_STD_I64LE, number);
    } else if (const auto* word = std::get_if<uint64_t>(&value)) {
      write_attribute(file, name, H5T_STD_U64LE, word);
    } else {
      write_attribute(file, name, H5T_IEEE_F64LE, &std::get<double>(value));
    }
  }

  void write_attribute(const h5::Handle& file, const std::string& name, hid_t type,
                       const void* value) const {
    const h5::Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const h5::Handle attribute(
        H5Acreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    if (!attribute || H5Awrite(attribute.get(), type, value) < 0)
      fail_hdf5(str("write attribute ", name, " to"));
  }

  const std::filesystem::path file_, temporary_;
  const Schema schema_;
  std::vector<unsigned char> written_;
  Stored inputs_, targets_;
  int64_t checksums_at_ = 0, group_ = 0;  // offsets in the file
  FileDescriptor out_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Writer> Writer::create(const std::filesystem::path& file, const Schema& schema,
                                       const RowCounts& rows) {
  return std::make_unique<FileWriter>(file, schema, rows);
}

std::unique_ptr<Writer> Writer::create(const std::filesystem::path& file, const Schema& schema,
                                       const std::vector<int64_t>& input_rows,
                                       const std::vector<int64_t>& target_rows) {
  const auto counts = [&](const Field& field,
                          const std::vector<int64_t>& rows) -> std::function<int64_t(int64_t)> {
    DTRAIN_CHECK(rows.size() == (field.variable() ? static_cast<size_t>(schema.samples) : 0));
    if (!field.variable()) return {};
    return [&](int64_t id) { return rows[static_cast<size_t>(id)]; };
  };
  return create(file, schema,
                RowCounts{counts(schema.input, input_rows), counts(schema.target, target_rows)});
}

void Writer::finish(const Extras& extras) {
  const auto column = []<typename T>(const std::vector<T>& values) {
    return Column<T>{static_cast<int64_t>(values.size()),
                     [&](int64_t i) { return values[static_cast<size_t>(i)]; }};
  };
  Index index{.source = column(extras.source),
              .group = column(extras.group),
              .attributes = extras.attributes};
  for (const auto& [name, ids] : extras.splits) index.splits[name] = column(ids);
  finish(index);
}

}  // namespace dtrain::data
