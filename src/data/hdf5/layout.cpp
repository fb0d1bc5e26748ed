#include "data/hdf5/layout.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "data/hdf5/h5_handles.h"
#include "text/number_text.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "integers are read without byte swapping");

constexpr const char* kConvertAdvice =
    ". Make a dtrain file from raw data with `dtrain convert NAME DIR`, or generate one with "
    "`dtrain synth TASK`";

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw DataError(str(file.string(), what));
}

// What to do about a file that the library does not open because of its format. "" for
// other reasons.
std::string format_advice(const std::string& reason) {
  if (reason.find("exceeds high bound") !=
      std::string::npos) {  // "superblock version exceeds high bound"
    return ". It was written in the format of a newer HDF5 (h5py: libver=\"latest\"); write it "
           "again with libver=\"earliest\"";
  }
  if (reason.find("File space info") !=
      std::string::npos) {  // "File space info message's version out of bounds"
    return ". It was written with a strategy for file space, such as paged (h5py: "
           "fs_strategy=\"page\"), which only the format of a newer HDF5 has; write it again "
           "without fs_strategy";
  }
  return "";
}

// What HDF5 says of a file that was cut: "truncated file: eof = 3000, sblock->base_addr = 0,
// stored_eof = 7367".
std::string truncation(const std::string& reason) {
  const auto number_after = [&](std::string_view name) -> std::string {
    const size_t at = reason.find(name);
    if (at == std::string::npos) return "";
    const std::string rest = reason.substr(at + name.size());
    return rest.substr(0, rest.find_first_not_of("0123456789"));
  };
  const std::string has = number_after("truncated file: eof = "),
                    had = number_after("stored_eof = ");
  return has.empty() || had.empty() ? "" : str(" is truncated: it has ", has, " bytes of ", had);
}

[[noreturn]] void refuse_unopened(const std::filesystem::path& file, const std::string& reason) {
  if (const std::string cut = truncation(reason); !cut.empty())
    refuse(file, cut + ". Copy it again");
  refuse(file, str(" cannot be opened: ", reason, format_advice(reason)));
}

struct stat regular_file(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    refuse(file, str(": ", std::strerror(errno), kConvertAdvice));
  if (!S_ISREG(info.st_mode)) refuse(file, " is not a regular file");
  return info;
}

std::string type_name(hid_t type) {
  const std::string bits = std::to_string(8 * H5Tget_size(type));
  const char* order = H5Tget_order(type) == H5T_ORDER_BE ? " big endian" : "";
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return str(H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int", bits, order);
    case H5T_FLOAT:
      return str("float", bits, order);
    case H5T_STRING:
      return "text";
    default:
      return "of another type";
  }
}

// What every file of dtrain has, and what its converters add. These are opened by name: on a
// damaged file the library is less likely to crash than when it lists all attributes.
constexpr const char* kKnownAttributes[] = {"format",
                                            "version",
                                            "task",
                                            "num_samples",
                                            "checksum",
                                            "index_checksum",
                                            "source",
                                            "class_names",
                                            "target_names",
                                            "target_unit",
                                            kAttributesChecksum,
                                            "protocol",
                                            "seed",
                                            "samples_beyond_range",
                                            "samples_quarantined"};

std::optional<Attribute> text_attribute(hid_t attribute, hid_t type, hid_t space) {
  if (H5Tis_variable_str(type) > 0) {  // from an older dtrain, or h5py's str
    char* text = nullptr;
    if (H5Aread(attribute, type, &text) < 0) return std::nullopt;
    const std::string copy = text != nullptr ? text : "";
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, &text);
    return copy;
  }
  std::string text(H5Tget_size(type), '\0');
  if (H5Aread(attribute, type, text.data()) < 0) return std::nullopt;
  const char padding = H5Tget_strpad(type) == H5T_STR_SPACEPAD ? ' ' : '\0';
  text.erase(text.find_last_not_of(padding) + 1);
  return text;
}

template <typename Number>
std::optional<Attribute> number_attribute(hid_t attribute, hid_t type_in_memory) {
  Number value{};
  if (H5Aread(attribute, type_in_memory, &value) < 0) return std::nullopt;
  return Attribute(value);
}

// The value of a root attribute; none for an array, for a type that is neither text nor a number,
// and where it cannot be read.
std::optional<Attribute> value_of(hid_t attribute) {
  const h5::Handle type(H5Aget_type(attribute), H5Tclose);
  const h5::Handle space(H5Aget_space(attribute), H5Sclose);
  if (!type || !space || H5Sget_simple_extent_npoints(space.get()) != 1) return std::nullopt;
  switch (H5Tget_class(type.get())) {
    case H5T_STRING:
      return text_attribute(attribute, type.get(), space.get());
    case H5T_INTEGER:
      return H5Tget_sign(type.get()) == H5T_SGN_NONE
                 ? number_attribute<uint64_t>(attribute, H5T_NATIVE_UINT64)
                 : number_attribute<int64_t>(attribute, H5T_NATIVE_INT64);
    case H5T_FLOAT:
      return number_attribute<double>(attribute, H5T_NATIVE_DOUBLE);
    default:
      return std::nullopt;
  }
}

class Prober {
 public:
  explicit Prober(const std::filesystem::path& file) {
    layout_.file = file;
    layout_.identity = identity_of(regular_file(file));
    if (layout_.identity.bytes == 0) refuse(file, " is empty");
    H5PLset_loading_state(0);  // a file must not make HDF5 load plugins
    if (::access(file.c_str(), R_OK) != 0)
      refuse(file, str(" cannot be read: ", std::strerror(errno)));
    if (H5Fis_hdf5(file.c_str()) <= 0) refuse(file, str(" is not an HDF5 file", kConvertAdvice));
    const h5::Handle access = h5::file_access();
    file_ = h5::Handle(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
    if (!file_) refuse_unopened(file, h5::last_error());
  }

  Layout run() {
    read_attributes();
    Schema& schema = layout_.schema;
    schema.input = field("/inputs", &layout_.inputs, &layout_.input_offsets);
    schema.target = field("/targets", &layout_.targets, &layout_.target_offsets);
    contiguous("/checksums", H5T_STD_U64LE, &layout_.checksums);
    contiguous("/group", H5T_STD_I64LE, &layout_.group);
    expect_group("/source");
    contiguous("/source/bytes", H5T_STD_U8LE, &layout_.source_bytes);
    contiguous("/source/offsets", H5T_STD_I64LE, &layout_.source_offsets);
    expect_group("/splits");
    refuse_unknown_splits();
    for (const char* name : kSplitNames) {
      const std::string path = str("/splits/", name);
      if (H5Lexists(file_.get(), path.c_str(), H5P_DEFAULT) > 0) {
        contiguous(path, H5T_STD_I64LE, &layout_.splits[name]);
      }
    }
    return layout_;
  }

 private:
  [[noreturn]] void refuse_dataset(const std::string& path, const std::string& what) const {
    refuse(layout_.file, str(": ", path, " ", what, ". Make the file again with `dtrain convert`"));
  }

  void read_attributes() {
    const h5::Handle root(H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose);
    if (!root) refuse(layout_.file, str(" has no readable root group: ", h5::last_error()));
    find_attributes(root.get());
    const Attributes& all = layout_.attributes;
    const auto format = all.find("format");
    if (format == all.end() || format->second != Attribute("dtrain")) {
      const std::string found =
          format == all.end() ? "missing" : "\"" + printable(text_of(format->second)) + "\"";
      refuse(layout_.file,
             str(" is an HDF5 file of another program: the root attribute `format` is ", found,
                 ", not \"dtrain\"", kConvertAdvice));
    }
    if (const auto version = number<int64_t>("version"); version != kFormatVersion) {
      refuse(layout_.file,
             str(" has format version ", version, "; this dtrain reads version ", kFormatVersion,
                 ". Convert the raw data again, or use the dtrain that wrote the file"));
    }
    layout_.schema.samples = number<int64_t>("num_samples");
    layout_.schema.checksum = number<uint64_t>("checksum");
    layout_.index_checksum = number<uint64_t>("index_checksum");
    const auto task = all.find("task");
    if (task == all.end()) refuse(layout_.file, " lacks the root attribute `task`");
    layout_.schema.task = text_of(task->second);
  }

  // A misspelled split would be ignored, and its samples would be in the training split.
  void refuse_unknown_splits() const {
    const h5::Handle group(H5Gopen2(file_.get(), "/splits", H5P_DEFAULT), H5Gclose);
    std::vector<std::string> names;
    const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    };
    if (!group ||
        H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0) {
      refuse_dataset("/splits", str("cannot be listed: ", h5::last_error()));
    }
    for (const std::string& name : names) {
      if (std::ranges::find(kSplitNames, name) == std::end(kSplitNames))
        refuse(layout_.file, not_a_split(name));
    }
  }

  void find_attributes(hid_t root) {
    hsize_t found = 0;
    for (const char* name : kKnownAttributes) {
      const htri_t exists = H5Aexists(root, name);
      if (exists < 0) {
        refuse(layout_.file,
               str(": the root attribute `", name, "` cannot be looked up: ", h5::last_error()));
      }
      if (exists == 0) continue;
      read_attribute(root, name);
      ++found;
    }
    H5O_info_t info{};
    if (H5Oget_info2(root, &info, H5O_INFO_NUM_ATTRS) < 0) {
      refuse(layout_.file, str(" has root attributes that cannot be counted: ", h5::last_error()));
    }
    if (info.num_attrs != found) list_attributes(root);
  }

  // Finds those with names of others, too.
  void list_attributes(hid_t root) {
    std::vector<std::string> names;
    const auto collect = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    };
    if (H5Aiterate2(root, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0) {
      refuse(layout_.file, str(" has root attributes that cannot be listed: ", h5::last_error()));
    }
    for (const std::string& name : names) {
      if (std::ranges::count(kKnownAttributes, name) == 0) read_attribute(root, name);
    }
  }

  void read_attribute(hid_t root, const std::string& name) {
    const h5::Handle attribute(H5Aopen(root, name.c_str(), H5P_DEFAULT), H5Aclose);
    if (!attribute)
      refuse(layout_.file,
             str(": the root attribute `", name, "` cannot be read: ", h5::last_error()));
    const std::optional<Attribute> value = value_of(attribute.get());
    if (value) {
      layout_.attributes[name] = *value;
    } else {
      layout_.other_attributes.push_back(name);
    }
  }

  template <typename Integer>
  Integer number(const char* name) const {
    const auto found = layout_.attributes.find(name);
    if (found == layout_.attributes.end())
      refuse(layout_.file, str(" lacks the root attribute `", name, "`"));
    const bool is_number = !std::holds_alternative<std::string>(found->second);
    const std::string text = text_of(found->second);
    const std::optional<Integer> value = is_number ? parse_number<Integer>(text) : std::nullopt;
    if (!value) {
      refuse(layout_.file,
             str(": the root attribute `", name, "` is ", is_number ? "" : "the text \"",
                 printable(text), is_number ? "" : "\"", ", must be an integer"));
    }
    return *value;
  }

  void expect_hard_link(const std::string& path) const {
    if (H5Lexists(file_.get(), path.c_str(), H5P_DEFAULT) <= 0) refuse_dataset(path, "is missing");
    H5L_info_t link{};
    if (H5Lget_info(file_.get(), path.c_str(), &link, H5P_DEFAULT) < 0 ||
        link.type != H5L_TYPE_HARD) {
      refuse_dataset(path, "is a link to another place, must be in the file itself");
    }
  }

  void expect_group(const std::string& path) const {
    expect_hard_link(path);
    const h5::Handle group(H5Gopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Gclose);
    if (!group) refuse_dataset(path, "must be a group");
  }

  // Reads a dataset with one entry per sample, or a group with `values` and `offsets` (in rows).
  Field field(const std::string& path, Extent* values, Extent* offsets) const {
    expect_hard_link(path);
    const h5::Handle group(H5Gopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Gclose);
    Field result;
    std::vector<hsize_t> shape;
    if (group) {
      shape = contiguous(path + "/values", &result.element, values);
      contiguous(path + "/offsets", H5T_STD_I64LE, offsets);
      result.shape.push_back(kVariable);
    } else {
      shape = contiguous(path, &result.element, values);
    }
    result.shape.insert(result.shape.end(), shape.begin() + 1, shape.end());
    if (result.row_elements() == 0)
      refuse_dataset(path, str("has empty samples: shape ", shape_text(shape)));
    return result;
  }

  // A one-dimensional dataset of type `expected`.
  void contiguous(const std::string& path, hid_t expected, Extent* extent) const {
    const h5::Handle dataset = open_dataset(path);
    const h5::Handle type(H5Dget_type(dataset.get()), H5Tclose);
    if (H5Tequal(type.get(), expected) <= 0) {
      refuse_dataset(path, str("is ", type_name(type.get()), ", must be ", type_name(expected)));
    }
    const std::vector<hsize_t> shape = place(path, dataset, H5Tget_size(expected), extent);
    if (shape.size() != 1)
      refuse_dataset(path, str("has ", shape.size(), " dimensions, must have 1"));
  }

  // A dataset of any supported element type with at least one dimension. Returns its shape.
  std::vector<hsize_t> contiguous(const std::string& path, Element* element, Extent* extent) const {
    const h5::Handle dataset = open_dataset(path);
    const h5::Handle type(H5Dget_type(dataset.get()), H5Tclose);
    const std::pair<hid_t, Element> known[] = {{H5T_STD_U8LE, Element::kUint8},
                                               {H5T_IEEE_F32LE, Element::kFloat32},
                                               {H5T_STD_I64LE, Element::kInt64}};
    const auto* found = std::ranges::find_if(
        known, [&](const auto& entry) { return H5Tequal(type.get(), entry.first) > 0; });
    if (found == std::end(known)) {
      const bool inputs = path.starts_with("/inputs");
      refuse(layout_.file, str(": ", path, " is ", type_name(type.get()), ", must be ",
                               inputs ? "uint8 or float32" : "float32 or int64",
                               ". Make the file again with `dtrain convert`, or write that type"));
    }
    *element = found->second;
    std::vector<hsize_t> shape =
        place(path, dataset, static_cast<hsize_t>(size_of(*element)), extent);
    if (shape.empty()) refuse_dataset(path, "is a single number, must have one entry per sample");
    return shape;
  }

  // Requires: its parent groups passed expect_group() or field().
  h5::Handle open_dataset(const std::string& path) const {
    expect_hard_link(path);
    h5::Handle dataset(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset) refuse_dataset(path, str("is not a readable dataset: ", h5::last_error()));
    return dataset;
  }

  // Checks the storage of a dataset with elements of `bytes` bytes, and sets `extent` to its place.
  // Returns the shape.
  std::vector<hsize_t> place(const std::string& path, const h5::Handle& dataset, hsize_t bytes,
                             Extent* extent) const {
    const h5::Handle space(H5Dget_space(dataset.get()), H5Sclose);
    const int dimensions = H5Sget_simple_extent_ndims(space.get());
    if (dimensions < 0) refuse_dataset(path, "has no readable shape");
    std::vector<hsize_t> shape(static_cast<size_t>(dimensions));
    H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
    bool empty = false;
    // a size of 0 counts as 1, so that rows of 2^62 elements are refused even if there are none
    for (const hsize_t size : shape) {
      empty = empty || size == 0;
      if (__builtin_mul_overflow(bytes, std::max<hsize_t>(size, 1), &bytes) ||
          bytes > static_cast<hsize_t>(INT64_MAX)) {
        refuse_dataset(
            path, str("claims the shape ", shape_text(shape), ", more bytes than a file can have"));
      }
    }
    if (empty) bytes = 0;
    const h5::Handle creation(H5Dget_create_plist(dataset.get()), H5Pclose);
    const H5D_layout_t kind = H5Pget_layout(creation.get());
    if (kind == H5D_VIRTUAL) refuse_dataset(path, "is virtual (its bytes are in other files)");
    if (kind != H5D_CONTIGUOUS) refuse_dataset(path, "is chunked or compact, must be contiguous");
    if (H5Pget_external_count(creation.get()) != 0)
      refuse_dataset(path, "keeps its bytes in external files");
    extent->bytes = static_cast<int64_t>(bytes);
    if (bytes == 0) return shape;
    const haddr_t offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF) refuse_dataset(path, "was never written");
    extent->offset = static_cast<int64_t>(offset);  // may be beyond the end of the file
    return shape;
  }

  Layout layout_;
  h5::Handle file_;
};

}  // namespace

FileIdentity identity_of(const struct stat& info) {
  return {.device = static_cast<int64_t>(info.st_dev),
          .inode = static_cast<int64_t>(info.st_ino),
          .bytes = info.st_size,
          .modified_ns = int64_t{1'000'000'000} * info.st_mtim.tv_sec + info.st_mtim.tv_nsec};
}

std::string hdf5_version() {
  const h5::SilentErrors silent;
  unsigned major = 0, minor = 0, patch = 0;
  H5get_libversion(&major, &minor, &patch);
  return str(major, ".", minor, ".", patch);
}

Layout probe(const std::filesystem::path& file) {
  const h5::SilentErrors silent;
  return Prober(file).run();
}

}  // namespace dtrain::data
