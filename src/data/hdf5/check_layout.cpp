#include <algorithm>
#include <set>

#include "core/error.h"
#include "data/hdf5/layout.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain::data {
namespace {

constexpr int64_t kWord = 8;  // bytes of an int64 or uint64

class LayoutCheck {
 public:
  explicit LayoutCheck(const Layout& layout) : layout_(layout), schema_(layout.schema) {}

  void run() const {
    if (schema_.samples <= 0) refuse(str(" holds ", schema_.samples, " samples"));
    if (schema_.samples >
        layout_.identity.bytes / kWord) {  // each has a checksum; so that nothing below overflows
      refuse(str(" claims ", schema_.samples, " samples, more than a file of ",
                 layout_.identity.bytes, " bytes has"));
    }
    check_fields();
    expect_words("/checksums", layout_.checksums, schema_.samples);
    expect_words("/group", layout_.group, schema_.samples);
    expect_inside("/source/bytes", layout_.source_bytes);
    expect_words("/source/offsets", layout_.source_offsets, schema_.samples + 1);
    for (const auto& [name, extent] : layout_.splits) {
      if (std::ranges::find(kSplitNames, name) == std::end(kSplitNames)) {
        refuse(not_a_split(name));
      }
      expect_words("/splits/" + name, extent, extent.bytes / kWord);
    }
    const auto train = layout_.splits.find("train");
    if (train != layout_.splits.end() && train->second.bytes == 0) {
      refuse(
          ": /splits/train is empty. Without this dataset, training uses the samples that are in "
          "no other split: remove it, or put sample ids into it");
    }
    check_attributes();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(str(layout_.file.string(), what));
  }
  [[noreturn]] void refuse_dataset(const std::string& path, const std::string& what) const {
    refuse(str(": ", path, " ", what, ". Make the file again with `dtrain convert`"));
  }

  void check_fields() const {
    if (!storable_input(schema_.input)) {
      refuse_dataset(
          "/inputs",
          str("holds samples of ", text_of(schema_.input),
              ", must be uint8 [N, H, W, 3], float32 [N, F] or [N, T, F], or a group of samples "
              "with different numbers of rows, float32 [rows, F]"));
    }
    if (!storable_target(schema_.target)) {
      refuse_dataset(
          "/targets",
          str("holds samples of ", text_of(schema_.target),
              ", must be float32 or int64 [N] or [N, T], or a group of samples with different "
              "numbers of rows, int64 [rows]"));
    }
    check_field("/inputs", schema_.input, layout_.inputs, layout_.input_offsets);
    check_field("/targets", schema_.target, layout_.targets, layout_.target_offsets);
  }

  void check_field(const std::string& path, const Field& field, const Extent& values,
                   const Extent& offsets) const {
    const int64_t row_bytes = checked_row_bytes(path, field);
    if (field.variable()) {
      expect_inside(path + "/values", values);
      if (values.bytes % row_bytes != 0) {
        refuse_dataset(path + "/values",
                       str("has ", values.bytes, " bytes, which is not a whole number of rows of ",
                           row_bytes));
      }
      expect_words(path + "/offsets", offsets, schema_.samples + 1);
    } else {
      expect_inside(path, values);
      if (values.bytes % row_bytes != 0 || values.bytes / row_bytes != schema_.samples) {
        refuse_entries(path, values.bytes / row_bytes, schema_.samples);
      }
    }
  }

  // The bytes of a sample or row. Requires: the field is storable, so that no dimension is 0
  // or negative.
  int64_t checked_row_bytes(const std::string& path, const Field& field) const {
    int64_t bytes = size_of(field.element);
    for (size_t i = field.variable() ? 1 : 0; i < field.shape.size(); ++i) {
      if (__builtin_mul_overflow(bytes, field.shape[i], &bytes)) {
        refuse_dataset(path, "claims samples of more bytes than a file can have");
      }
    }
    return bytes;
  }

  void expect_inside(const std::string& path, const Extent& extent) const {
    const int64_t size = layout_.identity.bytes;
    if (extent.bytes < 0 || extent.offset < 0) refuse_dataset(path, "has a negative place or size");
    if (extent.offset > size || extent.bytes > size - extent.offset) {
      refuse_dataset(path, str("has ", extent.bytes, " bytes from byte ", extent.offset,
                               " on, but the file has only ", size, ": it is truncated"));
    }
  }

  void expect_words(const std::string& path, const Extent& extent, int64_t words) const {
    expect_inside(path, extent);
    if (extent.bytes % kWord != 0) {
      refuse_dataset(path, str("has ", extent.bytes, " bytes, which is not a multiple of ", kWord));
    }
    if (extent.bytes / kWord != words) refuse_entries(path, extent.bytes / kWord, words);
  }

  [[noreturn]] void refuse_entries(const std::string& path, int64_t entries,
                                   int64_t expected) const {
    refuse_dataset(path, str("has ", entries, " entries, but `num_samples` is ", schema_.samples,
                             ": ", expected, " are expected"));
  }

  void check_attributes() const {
    for (const char* name : {"class_names", "target_names", "target_unit", kAttributesChecksum}) {
      const auto& others = layout_.other_attributes;
      if (std::ranges::find(others, name) == others.end()) continue;
      refuse(str(": the root attribute `", name,
                 "` is neither text nor a single number: an array, or not readable"));
    }
    for (const auto& [name, attribute] : layout_.attributes) {
      const auto* text = std::get_if<std::string>(&attribute);
      if (text == nullptr) continue;
      if (!is_utf8(*text)) refuse(str(": the root attribute `", name, "` is not UTF-8"));
      if (text->find('\0') != std::string::npos)
        refuse(str(": the root attribute `", name, "` has a zero byte in it"));
    }
    check_class_names();
    const auto checksum = layout_.attributes.find(kAttributesChecksum);
    // Without a checksum, an older dtrain or another program wrote the file
    if (checksum == layout_.attributes.end()) return;
    if (!layout_.other_attributes.empty()) {
      refuse(str(": the root attribute `", layout_.other_attributes.front(),
                 "` is neither text nor a single number, so that `", kAttributesChecksum,
                 "` cannot cover it", advice()));
    }
    if (checksum->second != Attribute(attributes_checksum(layout_.attributes))) {
      refuse(str(": the root attributes do not match `", kAttributesChecksum,
                 "`: the file is damaged, or one of them ",
                 "was changed after the file was written", advice()));
    }
  }

  static std::string advice() {
    return str(
        ". Make the file again with `dtrain convert`. (After a change on purpose: remove the "
        "attribute `",
        kAttributesChecksum, "`, and nothing covers them)");
  }

  void check_class_names() const {
    const auto joined = layout_.attributes.find("class_names");
    if (joined == layout_.attributes.end()) return;
    const auto* text = std::get_if<std::string>(&joined->second);
    if (text == nullptr) refuse(": the root attribute `class_names` must be text");
    if (text->empty()) return;  // no names
    std::set<std::string> seen;
    for (const std::string& name : split(*text, '\n')) {
      if (name.empty())
        refuse(": `class_names` has an empty name (is there a line feed at its end?)");
      if (!seen.insert(name).second) {
        refuse(str(": `class_names` has the class ", printable(name),
                   " twice: two classes cannot share a name"));
      }
    }
  }

  const Layout& layout_;
  const Schema& schema_;
};

}  // namespace

std::string not_a_split(const std::string& name) {
  const std::vector<std::string> known(std::begin(kSplitNames), std::end(kSplitNames));
  const std::string near = nearest(name, known);
  return str(": /splits/", printable(name), " is not a split: train, val and test are known",
             near.empty() ? "" : "; did you mean '" + near + "'?");
}

void check(const Layout& layout) { LayoutCheck(layout).run(); }

}  // namespace dtrain::data
