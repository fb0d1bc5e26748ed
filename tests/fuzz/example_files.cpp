#include "fuzz/example_files.h"

#include "core/check.h"
#include "data/hdf5/h5_handles.h"
#include "data/hdf5/layout.h"
#include "data/hdf5/row_set.h"

namespace dtrain::testing {
namespace {

using data::h5::Handle;

void write_pictures_of_classes(const std::filesystem::path& file,
                               const data::Writer::Extras& extras) {
  data::Schema schema = small_schema(6);
  schema.task = "classify";
  schema.target = {data::Element::kInt64, {}};
  const auto writer = data::Writer::create(file, schema);
  for (int64_t id = 0; id < 6; ++id)
    writer->write(id, input_of(id), bytes_of(std::vector<int64_t>{id % 3}));
  writer->finish(extras);
}

void write_old_attribute(hid_t root, const std::string& name, const data::Attribute& value) {
  const auto* text = std::get_if<std::string>(&value);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle type(H5Tcopy(text != nullptr                           ? H5T_C_S1
                            : std::holds_alternative<uint64_t>(value) ? H5T_STD_U64LE
                                                                      : H5T_STD_I64LE),
                    H5Tclose);
  if (text != nullptr) {
    H5Tset_size(type.get(), H5T_VARIABLE);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
  }
  const Handle attribute(
      H5Acreate2(root, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  const char* pointer = text != nullptr ? text->c_str() : nullptr;
  const void* number = std::holds_alternative<int64_t>(value)
                           ? static_cast<const void*>(&std::get<int64_t>(value))
                       : std::holds_alternative<uint64_t>(value) ? &std::get<uint64_t>(value)
                                                                 : nullptr;
  DTRAIN_CHECK(H5Awrite(attribute.get(), type.get(), text != nullptr ? &pointer : number) >= 0,
               name);
}

// Into a new dataset, because H5Ocopy() would keep the newer object header.
void copy_dataset(hid_t from, hid_t to, const char* name) {
  const Handle dataset(H5Dopen2(from, name, H5P_DEFAULT), H5Dclose);
  if (!dataset) return;  // a group, or not in this file
  const Handle type(H5Dget_type(dataset.get()), H5Tclose),
      space(H5Dget_space(dataset.get()), H5Sclose);
  std::vector<char> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space.get())) *
                           H5Tget_size(type.get()));
  DTRAIN_CHECK(
      H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, name);
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const Handle copy(
      H5Dcreate2(to, name, type.get(), space.get(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose);
  DTRAIN_CHECK(H5Dwrite(copy.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0,
               name);
}

void rewrite_as_first_version(const std::filesystem::path& from, const std::filesystem::path& to) {
  const data::h5::SilentErrors silent;
  const data::Attributes attributes = data::probe(from).attributes;
  const Handle in(H5Fopen(from.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  const Handle out(H5Fcreate(to.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  for (const char* name : {"inputs", "inputs/values", "inputs/offsets", "targets", "targets/values",
                           "targets/offsets", "checksums", "group", "source/bytes",
                           "source/offsets", "splits/train", "splits/val", "splits/test"}) {
    copy_dataset(in.get(), out.get(), name);
  }
  for (const auto& [name, value] : attributes) {
    if (name != data::kAttributesChecksum) write_old_attribute(out.get(), name, value);
  }
}

}  // namespace

std::vector<std::filesystem::path> write_example_files(const std::filesystem::path& folder) {
  data::Writer::Extras extras = extras_of(6);
  extras.splits = {{"train", {5, 0, 2, 4}}, {"val", {1}}, {"test", {3}}};
  extras.attributes["target_names"] = "yaw,pitch,roll";
  write_data_set(folder / "headpose.h5", 6, extras);
  extras.attributes.erase("target_names");
  extras.attributes["class_names"] = "walk\nrun\nstand still";
  extras.attributes["seed"] = uint64_t{1};
  write_pictures_of_classes(folder / "classify.h5", extras);
  write_row_set(folder / "sequence.h5", /*orders=*/false, extras);
  extras.attributes.erase("class_names");
  write_row_set(folder / "pointer.h5", /*orders=*/true, extras);
  std::vector<std::filesystem::path> files;
  for (const char* name : {"headpose", "classify", "sequence", "pointer"}) {
    files.push_back(folder / (std::string(name) + ".h5"));
    files.push_back(folder / (std::string(name) + "-old.h5"));
    rewrite_as_first_version(files[files.size() - 2], files.back());
  }
  return files;
}

}  // namespace dtrain::testing
