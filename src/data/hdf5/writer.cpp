#include "data/hdf5/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/file_descriptor.h"
#include "core/file_system.h"
#include "core/hash.h"
#include "data/hdf5/h5_handles.h"
#include "data/hdf5/layout.h"

namespace dtrain::data {
namespace {

using Shape = std::vector<hsize_t>;

constexpr unsigned kAttributesInHeader = 64;  // with more, the library moves them to a structure that is harder to read

class FileWriter : public Writer {
 public:
  FileWriter(const std::filesystem::path& file, const Schema& schema, const std::vector<int64_t>& input_rows,
             const std::vector<int64_t>& target_rows)
      : file_(file),
        temporary_(temporary_name(file)),
        schema_(schema),
        checksums_(static_cast<size_t>(schema.samples)),
        written_(static_cast<size_t>(schema.samples)),
        inputs_{schema.input, offsets_of(schema.input, input_rows)},
        targets_{schema.target, offsets_of(schema.target, target_rows)} {
    DTRAIN_CHECK(schema.samples > 0 && storable_input(schema.input) && storable_target(schema.target));
    if (file.has_parent_path()) real_file_system().create_folders(file.parent_path());
    try {
      create_datasets();
      open_and_reserve();
    } catch (...) {
      remove_temporary();
      throw;
    }
  }

  ~FileWriter() override {
    if (!finished_) remove_temporary();
  }

  void write(int64_t id, std::span<const std::byte> input, std::span<const std::byte> target) override {
    DTRAIN_CHECK(id >= 0 && id < schema_.samples);
    write_rows(inputs_, id, input);
    write_rows(targets_, id, target);
    checksums_[static_cast<size_t>(id)] = sample_checksum(input, target);
    written_[static_cast<size_t>(id)] = 1;
  }

  void finish(const Extras& extras) override {
    check(extras);
    for (const Stored& stored : {std::cref(inputs_), std::cref(targets_)}) {
      write_at(stored.offsets_at, std::as_bytes(std::span(stored.offsets)));
    }
    write_at(checksums_at_, std::as_bytes(std::span(checksums_)));
    write_at(group_, std::as_bytes(std::span(extras.group)));
    write_index(extras);
    if (const int code = out_.sync()) fail_to_write("fsync", temporary_, code);
    if (const int code = out_.close()) fail_to_write("close", temporary_, code);
    put_in_place(real_file_system(), temporary_, file_);
    finished_ = true;
  }

 private:
  // Inputs or targets, and their place in the file.
  struct Stored {
    Field field;
    std::vector<int64_t> offsets;  // in rows; empty: fixed size
    int64_t values_at = 0, offsets_at = 0;
  };

  std::vector<int64_t> offsets_of(const Field& field, const std::vector<int64_t>& rows) const {
    DTRAIN_CHECK(rows.size() == (field.variable() ? static_cast<size_t>(schema_.samples) : 0));
    std::vector<int64_t> offsets;
    if (!field.variable()) return offsets;
    offsets.push_back(0);
    for (const int64_t count : rows) {
      DTRAIN_CHECK(count >= 0);
      offsets.push_back(offsets.back() + count);
    }
    DTRAIN_CHECK(offsets.back() > 0, "no sample has a row");
    return offsets;
  }

  void write_rows(const Stored& stored, int64_t id, std::span<const std::byte> bytes) const {
    const auto at = static_cast<size_t>(id);
    const int64_t first = stored.offsets.empty() ? id : stored.offsets[at];
    const int64_t rows = stored.offsets.empty() ? 1 : stored.offsets[at + 1] - first;
    const int64_t row_bytes = stored.field.row_bytes();
    DTRAIN_CHECK(static_cast<int64_t>(bytes.size()) == rows * row_bytes, "sample ", id, " of ", bytes.size(),
                 " bytes, not ", rows * row_bytes);
    write_at(stored.values_at + first * row_bytes, bytes);
  }

  [[noreturn]] void fail_hdf5(const std::string& operation) const {
    const std::string reason = h5::last_error();
    if (const int code = h5::errno_in(reason); code != 0) fail_to_write(operation, temporary_, code);
    throw OutputError(str("cannot ", operation, " ", temporary_.string(), ": ", reason));
  }

  void remove_temporary() noexcept {
    out_.close();
    ::unlink(temporary_.c_str());
  }

  // Creates the datasets whose sizes are known. Samples are then written with pwrite at fixed offsets.
  void create_datasets() {
    const h5::SilentErrors silent;
    const h5::Handle access = h5::file_access(), creation = without_times(H5P_FILE_CREATE);
    H5Pset_attr_phase_change(creation.get(), kAttributesInHeader, 0);
    h5::Handle file(H5Fcreate(temporary_.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose);
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
    Shape shape{static_cast<hsize_t>(variable ? stored.offsets.back() : schema_.samples)};
    shape.insert(shape.end(), stored.field.shape.begin() + (variable ? 1 : 0), stored.field.shape.end());
    if (variable) create_group(file, name.c_str());
    stored.values_at =
        offset_of(create_dataset(file, variable ? name + "/values" : name, type_of(stored.field.element), shape));
    if (variable) {
      stored.offsets_at = offset_of(create_dataset(file, name + "/offsets", H5T_STD_I64LE, {stored.offsets.size()}));
    }
  }

  static hid_t type_of(Element element) {
    return element == Element::kUint8 ? H5T_STD_U8LE : element == Element::kFloat32 ? H5T_IEEE_F32LE : H5T_STD_I64LE;
  }

  // Without times, equal samples give equal files.
  static h5::Handle without_times(hid_t properties) {
    h5::Handle creation(H5Pcreate(properties), H5Pclose);
    H5Pset_obj_track_times(creation.get(), false);
    return creation;
  }

  h5::Handle create_dataset(const h5::Handle& file, const std::string& name, hid_t type, const Shape& shape) const {
    const h5::Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
    const h5::Handle creation = without_times(H5P_DATASET_CREATE);
    H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
    h5::Handle dataset(
        H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), H5Dclose);
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
      fail_to_write(str("reserve ", human_bytes(static_cast<double>(info.st_size)), " for"), temporary_, code);
    }
  }

  void write_at(int64_t offset, std::span<const std::byte> bytes) const {
    if (const int code = out_.write_all_at(bytes, offset)) fail_to_write("write", temporary_, code);
  }

  void check(const Extras& extras) const {
    const auto samples = static_cast<size_t>(schema_.samples);
    DTRAIN_CHECK(extras.source.size() == samples && extras.group.size() == samples);
    for (size_t id = 0; id < samples; ++id) DTRAIN_CHECK(written_[id], "sample ", id, " was not written");
    std::vector<bool> in_split(samples);
    for (const auto& [name, ids] : extras.splits) {
      const bool known = std::find(std::begin(kSplitNames), std::end(kSplitNames), name) != std::end(kSplitNames);
      DTRAIN_CHECK(known, "split ", name);
      for (const int64_t id : ids) {
        DTRAIN_CHECK(id >= 0 && id < schema_.samples && !in_split[static_cast<size_t>(id)], "sample ", id, " in ",
                     name);
        in_split[static_cast<size_t>(id)] = true;
      }
    }
    for (const char* name :
         {"format", "version", "task", "num_samples", "checksum", "index_checksum", kAttributesChecksum}) {
      DTRAIN_CHECK(extras.attributes.count(name) == 0, "attribute ", name);
    }
  }

  // Writes what is known only at the end: splits, sources and attributes.
  void write_index(const Extras& extras) const {
    const h5::SilentErrors silent;
    const h5::Handle access = h5::file_access();
    h5::Handle file(H5Fopen(temporary_.c_str(), H5F_ACC_RDWR, access.get()), H5Fclose);
    if (!file) fail_hdf5("open");
    std::string source_bytes;
    std::vector<int64_t> source_offsets{0};
    for (const std::string& source : extras.source) {
      source_bytes += source;
      source_offsets.push_back(static_cast<int64_t>(source_bytes.size()));
    }
    create_group(file, "/source");
    write_dataset(file, "/source/bytes", H5T_STD_U8LE, std::as_bytes(std::span(source_bytes)));
    write_dataset(file, "/source/offsets", H5T_STD_I64LE, std::as_bytes(std::span(source_offsets)));
    create_group(file, "/splits");
    for (const auto& [name, ids] : extras.splits) {
      write_dataset(file, "/splits/" + name, H5T_STD_I64LE, std::as_bytes(std::span(ids)));
    }
    Attributes attributes = extras.attributes;
    attributes["format"] = "dtrain";
    attributes["task"] = schema_.task;
    attributes["version"] = kFormatVersion;
    attributes["num_samples"] = schema_.samples;
    attributes["checksum"] = xxh64(std::as_bytes(std::span(checksums_)));
    attributes["index_checksum"] =
        index_checksum(source_bytes, source_offsets, extras.group, extras.splits, inputs_.offsets, targets_.offsets);
    attributes[kAttributesChecksum] = attributes_checksum(attributes);
    for (const auto& [name, value] : attributes) write_attribute(file, name, value);
    if (!file.close()) fail_hdf5("close");
  }

  void create_group(const h5::Handle& file, const char* name) const {
    const h5::Handle creation = without_times(H5P_GROUP_CREATE);
    const h5::Handle group(H5Gcreate2(file.get(), name, H5P_DEFAULT, creation.get(), H5P_DEFAULT), H5Gclose);
    if (!group) fail_hdf5(str("create ", name, " in"));
  }

  void write_dataset(const h5::Handle& file, const std::string& name, hid_t type,
                     std::span<const std::byte> bytes) const {
    h5::Handle dataset = create_dataset(file, name, type, {bytes.size() / H5Tget_size(type)});
    if (!bytes.empty() && H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0) {
      fail_hdf5(str("write ", name, " to"));
    }
    if (!dataset.close()) fail_hdf5(str("close ", name, " in"));
  }

  void write_attribute(const h5::Handle& file, const std::string& name, const Attribute& value) const {
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

  void write_attribute(const h5::Handle& file, const std::string& name, hid_t type, const void* value) const {
    const h5::Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const h5::Handle attribute(H5Acreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                               H5Aclose);
    if (!attribute || H5Awrite(attribute.get(), type, value) < 0) fail_hdf5(str("write attribute ", name, " to"));
  }

  const std::filesystem::path file_, temporary_;
  const Schema schema_;
  std::vector<uint64_t> checksums_;
  std::vector<unsigned char> written_;
  Stored inputs_, targets_;
  int64_t checksums_at_ = 0, group_ = 0;  // offsets in the file
  FileDescriptor out_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Writer> Writer::create(const std::filesystem::path& file, const Schema& schema,
                                       const std::vector<int64_t>& input_rows,
                                       const std::vector<int64_t>& target_rows) {
  return std::make_unique<FileWriter>(file, schema, input_rows, target_rows);
}

}  // namespace dtrain::data
