#include "data/hdf5/layout_bytes.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

// One function describes the fields; with an Encoder it encodes them, with a Decoder it
// decodes them.
constexpr size_t kLeastBytes = sizeof(uint64_t);  // smallest encoded integer, string or map entry

class Encoder {
 public:
  std::string bytes;

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void field(Number& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void field(std::string& text) {
    size(text.size(), 1);
    bytes += text;
  }
  size_t size(size_t count, size_t) {
    uint64_t word = count;
    field(word);
    return count;
  }
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void field(Number& value) { std::memcpy(&value, take(sizeof value).data(), sizeof value); }
  void field(std::string& text) { text = take(size(0, 1)); }
  // Of a list whose elements have at least `least_bytes` each, so that a false size
  // allocates little.
  size_t size(size_t, size_t least_bytes) {
    uint64_t word = 0;
    field(word);
    if (word > rest_.size() / least_bytes) throw DataError("it ends early");
    return word;
  }
  void finish() const {
    if (!rest_.empty()) throw DataError(str(rest_.size(), " bytes follow it"));
  }

 private:
  std::string_view take(size_t bytes) {
    if (bytes > rest_.size()) throw DataError("it ends early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
};

template <typename Stream>
void field(Stream& stream, Extent& extent) {
  stream.field(extent.offset);
  stream.field(extent.bytes);
}

template <typename Stream>
void field(Stream& stream, Field& of_sample) {
  auto element = static_cast<int64_t>(of_sample.element);
  stream.field(element);
  if (element < 0 || element > static_cast<int64_t>(Element::kInt64))
    throw DataError("it has an unknown element type");
  of_sample.element = static_cast<Element>(element);
  of_sample.shape.resize(stream.size(of_sample.shape.size(), kLeastBytes));
  for (int64_t& size : of_sample.shape) stream.field(size);
}

template <size_t kKind, typename Stream>
void value(Stream& stream, Attribute& attribute) {
  if (attribute.index() != kKind) attribute.emplace<kKind>();
  stream.field(std::get<kKind>(attribute));
}

template <typename Stream>
void field(Stream& stream, Attribute& attribute) {
  uint64_t kind = attribute.index();
  stream.field(kind);
  switch (kind) {
    case 0:
      return value<0>(stream, attribute);
    case 1:
      return value<1>(stream, attribute);
    case 2:
      return value<2>(stream, attribute);
    case 3:
      return value<3>(stream, attribute);
    default:
      throw DataError("it has an attribute of an unknown type");
  }
}

template <typename Value>
void map_field(Encoder& stream, std::map<std::string, Value>& map) {
  stream.size(map.size(), kLeastBytes);
  for (auto& [name, value] : map) {
    std::string copy = name;
    stream.field(copy);
    field(stream, value);
  }
}
template <typename Value>
void map_field(Decoder& stream, std::map<std::string, Value>& map) {
  for (size_t i = stream.size(0, kLeastBytes); i > 0; --i) {
    std::string name;
    stream.field(name);
    field(stream, map[name]);
  }
}

template <typename Stream>
void field(Stream& stream, Layout& layout) {
  FileIdentity& identity = layout.identity;
  for (int64_t* number :
       {&identity.device, &identity.inode, &identity.bytes, &identity.modified_ns}) {
    stream.field(*number);
  }
  stream.field(layout.schema.task);
  field(stream, layout.schema.input);
  field(stream, layout.schema.target);
  stream.field(layout.schema.samples);
  stream.field(layout.schema.checksum);
  for (Extent* extent :
       {&layout.inputs, &layout.targets, &layout.input_offsets, &layout.target_offsets,
        &layout.checksums, &layout.group, &layout.source_bytes, &layout.source_offsets}) {
    field(stream, *extent);
  }
  map_field(stream, layout.splits);
  map_field(stream, layout.attributes);
  layout.other_attributes.resize(stream.size(layout.other_attributes.size(), kLeastBytes));
  for (std::string& name : layout.other_attributes) stream.field(name);
  stream.field(layout.index_checksum);
}

}  // namespace

std::string encode(const Layout& layout) {
  Layout copy = layout;
  Encoder encoder;
  field(encoder, copy);
  return std::move(encoder.bytes);
}

Layout decode(std::string_view bytes, const std::filesystem::path& file) {
  try {
    Layout layout;
    Decoder decoder(bytes);
    field(decoder, layout);
    decoder.finish();
    layout.file = file;
    return layout;
  } catch (const DataError& e) {
    throw DataError(
        str(file.string(),
            ": the description of the file that its reader sent is damaged: ", e.what()));
  }
}

}  // namespace dtrain::data
