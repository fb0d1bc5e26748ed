#include "checkpoint/safetensors_header.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/pickle_file.h"
#include "core/error.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain::checkpoint {
namespace {

constexpr std::pair<std::string_view, int64_t> kDtypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
    {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw CheckpointError(str(file, ": the safetensors header ", what));
}

// An iterator over the header that shows how far nlohmann's lexer has read.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  const char& operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Turns nlohmann's events into a SafetensorsHeader, and refuses whatever the format has no place
// for at the first event: no tree is built and nothing nests deeper than a list of a tensor. Text
// is known to be UTF-8.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string_view json, const std::string& file)
      : json_(json), file_(file), reached_(json.data()) {}

  SafetensorsHeader read() {
    const Cursor begin(json_.data(), &reached_), end(json_.data() + json_.size(), &reached_);
    // Not strict: nlohmann takes a zero byte for the end of the text.
    nlohmann::json::sax_parse(begin, end, this, nlohmann::json::input_format_t::json,
                              /*strict=*/false);
    const std::string_view rest = json_.substr(static_cast<size_t>(reached_ - json_.data()));
    if (rest.find_first_not_of(" \t\r\n") != std::string_view::npos)
      refuse("has something after its closing brace");
    return std::move(header_);
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTensors;
    } else if (place_ != Place::kTensors) {
      refuse_value();
    } else if (name_ == "__metadata__") {
      if (std::exchange(has_metadata_, true)) refuse("has __metadata__ twice");
      place_ = Place::kMetadata;
    } else {
      entry_ = {};
      entry_.name = name_;
      seen_ = {};
      place_ = Place::kTensor;
    }
    return true;
  }

  bool key(string_t& key) override {
    if (place_ == Place::kTensors) {
      name_ = std::move(key);
      return true;
    }
    key_ = std::move(key);
    if (place_ == Place::kMetadata) return true;
    const auto known = std::find(kKeys.begin(), kKeys.end(), key_);
    if (known == kKeys.end()) refuse(str("has the unknown key \"", key_, "\"", of_tensor()));
    if (std::exchange(seen_[static_cast<size_t>(known - kKeys.begin())], true)) {
      refuse(str("has the key \"", key_, "\" twice", of_tensor()));
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      for (size_t i = 0; i < kKeys.size(); ++i) {
        if (!seen_[i]) refuse(str("lacks the key \"", kKeys[i], "\"", of_tensor()));
      }
      header_.tensors.push_back(std::move(entry_));
    }
    place_ = Place::kTensors;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") refuse_value();
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_.clear();
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() != 2)
        refuse(str("has ", offsets_.size(), " data_offsets", of_tensor(), ", must be 2"));
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
    }
    place_ = Place::kTensor;
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(key_, std::move(text)).second)
        refuse(str("has the metadata \"", key_, "\" twice"));
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      entry_.dtype = std::move(text);
    } else {
      refuse_value();
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (!in_list()) refuse_value();
    if (number > INT64_MAX) refuse_large();
    if (place_ == Place::kShape) {
      entry_.shape.push_back(static_cast<int64_t>(number));
    } else {
      offsets_.push_back(number);
    }
    return true;
  }

  bool number_float(number_float_t, const string_t& text) override {
    // A whole number that 64 bits cannot hold comes as a float.
    if (in_list() && text.find_first_not_of("0123456789") == std::string::npos) refuse_large();
    refuse_value();
  }
  bool number_integer(number_integer_t) override { refuse_value(); }  // below 0
  bool boolean(bool) override { refuse_value(); }
  bool null() override { refuse_value(); }
  bool binary(binary_t&) override { refuse_value(); }

  // `error` says "[json.exception.parse_error.101] parse error at line 1, column 9: WHAT; last
  // read: '...'".
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    if (what.starts_with("parse error at"))
      what.remove_prefix(std::min(what.size(), what.find(": ") + 2));
    what = what.substr(0, what.find("; last read: '"));
    refuse(str("is not valid JSON: ", what.substr(0, what.find(" parsing '"))));
  }

 private:
  // What is open at present: nothing, the header, __metadata__, a tensor, or one of a
  // tensor's lists.
  enum class Place { kStart, kTensors, kMetadata, kTensor, kShape, kOffsets };
  static constexpr std::array<std::string_view, 3> kKeys = {"dtype", "shape", "data_offsets"};

  bool in_list() const { return place_ == Place::kShape || place_ == Place::kOffsets; }
  std::string of_tensor() const { return str(" of tensor \"", entry_.name, "\""); }
  std::string list() const {
    return (place_ == Place::kShape ? "a shape" : "data_offsets") + of_tensor();
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(file_, str(what, " (header byte ", reached_ - json_.data() - 1, ")"));
  }
  [[noreturn]] void refuse_large() const { refuse(str("has ", list(), " beyond 2^63")); }
  // A value of a type that does not belong here.
  [[noreturn]] void refuse_value() const {
    if (in_list()) refuse(str("has ", list(), " that is not a list of natural numbers"));
    if (place_ == Place::kMetadata) refuse(str("has the metadata \"", key_, "\" that is not text"));
    if (place_ != Place::kTensor) refuse(str("has \"", name_, "\" that is not an object"));
    refuse(str("has a ", key_, of_tensor(),
               key_ == "dtype" ? " that is not text" : " that is not a list"));
  }

  const std::string_view json_;
  const std::string& file_;
  const char* reached_;
  Place place_ = Place::kStart;
  std::string name_, key_;  // key in the outer object; key in the object within
  bool has_metadata_ = false;
  TensorEntry entry_;
  std::array<bool, kKeys.size()> seen_{};
  std::vector<uint64_t> offsets_;
  SafetensorsHeader header_;
};

// nlohmann keeps several copies of the string or number that it is reading, so that one of the
// header's size would take many times its memory. Such a token is refused before. The texts of real
// headers are far below the limit.
constexpr size_t kLongestToken = 8 << 20;

// What is wrong with the header's tokens; empty if nothing is.
std::string token_defect(std::string_view json) {
  constexpr std::string_view kSeparators = " \t\r\n,:{}[]";
  bool inside = false;  // a string
  size_t begin = 0;     // start of the current token
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      inside = !inside;
      begin = inside ? i : i + 1;
    } else if (inside) {
      if (json[i] == '\\') ++i;
    } else if (kSeparators.find(json[i]) != std::string_view::npos) {
      begin = i + 1;
    }
    if (i + 1 - begin > kLongestToken)
      return str("has a text or number of more than 8 MiB at header byte ", begin);
  }
  return inside ? "ends inside a string" : "";
}

void check_size(const TensorEntry& entry, const std::string& file) {
  const int64_t size = dtype_bytes(entry.dtype);
  if (size == 0)
    throw CheckpointError(
        str(file, ": tensor \"", entry.name, "\" has the unknown dtype \"", entry.dtype, "\""));
  int64_t bytes = size;
  bool overflow = false;
  // Zeros are left out of the overflow check's product, else the order of the dimensions would
  // decide what is refused.
  for (const int64_t n : entry.shape)
    overflow |= n != 0 && __builtin_mul_overflow(bytes, n, &bytes);
  if (overflow)
    throw CheckpointError(
        str(file, ": tensor \"", entry.name, "\" has a shape of more than 2^63 bytes"));
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) bytes = 0;
  if (entry.end < entry.begin) {
    throw CheckpointError(str(file, ": tensor \"", entry.name, "\" ends at ", entry.end,
                              " before it begins at ", entry.begin));
  }
  if (entry.end - entry.begin != static_cast<uint64_t>(bytes)) {
    throw CheckpointError(str(file, ": tensor \"", entry.name, "\" has ", entry.end - entry.begin,
                              " bytes, but its shape and dtype need ", bytes));
  }
}

void check_unique(const std::vector<TensorEntry>& tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& entry : tensors) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw CheckpointError(str(file, ": tensor \"", *twice, "\" is there twice"));
}

void check_cover(const std::vector<TensorEntry>& tensors, uint64_t data_bytes,
                 const std::string& file) {
  std::vector<const TensorEntry*> order;
  order.reserve(tensors.size());
  for (const TensorEntry& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t expected = 0;
  for (const TensorEntry* entry : order) {
    if (entry->end > data_bytes) {
      throw CheckpointError(str(file, ": tensor \"", entry->name, "\" ends at byte ", entry->end,
                                " of the data, but there are only ", data_bytes,
                                ": the file is truncated"));
    }
    if (entry->begin != expected) {
      throw CheckpointError(str(file, ": tensor \"", entry->name, "\" begins at byte ",
                                entry->begin, " of the data, ",
                                entry->begin < expected ? "inside the one before, which ends at "
                                                        : "after a hole that begins at ",
                                expected));
    }
    expected = entry->end;
  }
  if (expected != data_bytes) {
    throw CheckpointError(str(file, ": ", data_bytes - expected, " bytes follow the last tensor"));
  }
}

}  // namespace

int64_t dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

uint64_t header_length(std::span<const std::byte> first8, uint64_t file_bytes,
                       const std::string& file) {
  if (pickle_of(first8) != Pickle::kNone) throw CheckpointError(pickle_advice(file));
  if (first8.size() < 8) {
    throw CheckpointError(str(file, ": not a safetensors file: ", file_bytes,
                              " bytes, too short for a header's length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, first8.data(), 8);
  if (length > kMaxHeaderBytes) {
    throw CheckpointError(str(file, ": not a safetensors file: a header of ", length,
                              " bytes; at most ", kMaxHeaderBytes, " are allowed"));
  }
  if (length > file_bytes - 8) {
    throw CheckpointError(str(file, ": the header has ", length, " bytes, but the file only ",
                              file_bytes, ": it is truncated"));
  }
  return length;
}

SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes,
                               const std::string& file) {
  if (!json.starts_with('{')) fail(file, "does not begin with '{'");
  if (const size_t at = find_not_utf8(json); at != std::string_view::npos)
    fail(file, str("is not UTF-8 at byte ", at));
  if (const std::string defect = token_defect(json); !defect.empty()) fail(file, defect);
  SafetensorsHeader header = HeaderReader(json, file).read();
  header.data_start = 8 + json.size();
  for (const TensorEntry& entry : header.tensors) check_size(entry, file);
  check_unique(header.tensors, file);
  check_cover(header.tensors, data_bytes, file);
  return header;
}

FileDescriptor open_safetensors(const std::filesystem::path& path) {
  FileDescriptor in;
  if (const int code = in.open(path, O_RDONLY)) {
    throw CheckpointError(str(path.string(), " cannot be opened: ", std::strerror(code)));
  }
  return in;
}

void read_exactly(const FileDescriptor& in, uint64_t position, std::span<std::byte> out,
                  const std::string& file) {
  const int code = in.read_all_at(out, static_cast<int64_t>(position));
  if (code == 0) return;
  throw CheckpointError(str(file, ": ", out.size(), " bytes at ", position, " cannot be read: ",
                            code == FileDescriptor::kEndOfFile
                                ? "the file became shorter while in use"
                                : std::strerror(code)));
}

SafetensorsHeader read_header(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw CheckpointError(str(file, ": ", error.message()));
  const FileDescriptor in = open_safetensors(path);
  std::array<std::byte, 8> first8{};
  const std::span<std::byte> start = std::span(first8).first(std::min<uint64_t>(8, size));
  read_exactly(in, 0, start, file);
  std::string json(header_length(start, size, file), '\0');
  read_exactly(in, 8, std::as_writable_bytes(std::span(json)), file);
  return parse_header(json, size - 8 - json.size(), file);
}

}  // namespace dtrain::checkpoint
