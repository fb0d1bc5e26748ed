#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "checkpoint/safetensors_json.h"
#include "core/error.h"
#include "core/strings.h"

namespace dtrain::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 10> kDtypes = {{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I64", 8},
                                                                           {"I32", 4},
                                                                           {"I16", 2},
                                                                           {"I8", 1},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1}}};

TensorEntry read_tensor(JsonReader& json, const std::string& name) {
  TensorEntry entry;
  entry.name = name;
  const std::string of = str(" of tensor \"", name, "\"");
  bool has_dtype = false, has_shape = false, has_offsets = false;
  json.object([&](const std::string& key) {
    bool* seen = key == "dtype"          ? &has_dtype
                 : key == "shape"        ? &has_shape
                 : key == "data_offsets" ? &has_offsets
                                         : nullptr;
    if (seen == nullptr) json.fail(str("has the unknown key \"", key, "\"", of));
    if (std::exchange(*seen, true)) json.fail(str("has the key \"", key, "\" twice", of));
    if (seen == &has_dtype) {
      if (json.peek() != '"') json.fail(str("has a dtype", of, " that is not text"));
      entry.dtype = json.string();
    } else if (seen == &has_shape) {
      const std::vector<uint64_t> shape = json.naturals("a shape" + of);
      entry.shape.assign(shape.begin(), shape.end());
    } else {
      const std::vector<uint64_t> offsets = json.naturals("data_offsets" + of);
      if (offsets.size() != 2) json.fail(str("has ", offsets.size(), " data_offsets", of, ", must be 2"));
      entry.begin = offsets[0];
      entry.end = offsets[1];
    }
  });
  for (const auto& [there, key] :
       {std::pair(has_dtype, "dtype"), {has_shape, "shape"}, {has_offsets, "data_offsets"}}) {
    if (!there) json.fail(str("lacks the key \"", key, "\"", of));
  }
  return entry;
}

SafetensorsHeader read_all(JsonReader& json) {
  SafetensorsHeader header;
  bool has_metadata = false;
  json.object([&](const std::string& key) {
    if (key != "__metadata__") {
      header.tensors.push_back(read_tensor(json, key));
      return;
    }
    if (std::exchange(has_metadata, true)) json.fail("has __metadata__ twice");
    json.object([&](const std::string& name) {
      if (json.peek() != '"') json.fail(str("has the metadata \"", name, "\" that is not text"));
      if (!header.metadata.emplace(name, json.string()).second) json.fail(str("has the metadata \"", name, "\" twice"));
    });
  });
  json.end();
  return header;
}

void check_size(const TensorEntry& entry, const std::string& file) {
  const int64_t size = dtype_bytes(entry.dtype);
  if (size == 0)
    throw CheckpointError(str(file, ": tensor \"", entry.name, "\" has the unknown dtype \"", entry.dtype, "\""));
  int64_t bytes = size;
  bool overflow = false;
  // Zeros are left out of the overflow check's product, else the order of the dimensions would decide what is refused.
  for (const int64_t n : entry.shape) overflow |= n != 0 && __builtin_mul_overflow(bytes, n, &bytes);
  if (overflow) throw CheckpointError(str(file, ": tensor \"", entry.name, "\" has a shape of more than 2^63 bytes"));
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) bytes = 0;
  if (entry.end < entry.begin) {
    throw CheckpointError(
        str(file, ": tensor \"", entry.name, "\" ends at ", entry.end, " before it begins at ", entry.begin));
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
  if (twice != names.end()) throw CheckpointError(str(file, ": tensor \"", *twice, "\" is there twice"));
}

void check_cover(const std::vector<TensorEntry>& tensors, uint64_t data_bytes, const std::string& file) {
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
                                " of the data, but there are only ", data_bytes, ": the file is truncated"));
    }
    if (entry->begin != expected) {
      throw CheckpointError(
          str(file, ": tensor \"", entry->name, "\" begins at byte ", entry->begin, " of the data, ",
              entry->begin < expected ? "inside the one before, which ends at " : "after a hole that begins at ",
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

uint64_t header_length(std::span<const std::byte> first8, uint64_t file_bytes, const std::string& file) {
  if (first8.size() < 8) {
    throw CheckpointError(
        str(file, ": not a safetensors file: ", file_bytes, " bytes, too short for a header's length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, first8.data(), 8);
  if (length > kMaxHeaderBytes) {
    throw CheckpointError(str(file, ": not a safetensors file: a header of ", length, " bytes; at most ",
                              kMaxHeaderBytes, " are allowed"));
  }
  if (length > file_bytes - 8) {
    throw CheckpointError(
        str(file, ": the header has ", length, " bytes, but the file only ", file_bytes, ": it is truncated"));
  }
  return length;
}

SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& file) {
  if (json.empty() || json[0] != '{')
    throw CheckpointError(str(file, ": the safetensors header does not begin with '{'"));
  JsonReader reader(json, file);
  SafetensorsHeader header = read_all(reader);
  header.data_start = 8 + json.size();
  for (const TensorEntry& entry : header.tensors) check_size(entry, file);
  check_unique(header.tensors, file);
  check_cover(header.tensors, data_bytes, file);
  return header;
}

void read_exactly(std::istream& in, uint64_t position, std::span<std::byte> out, const std::string& file) {
  in.seekg(static_cast<std::streamoff>(position));
  if (!in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()))) {
    throw CheckpointError(str(file, ": ", out.size(), " bytes at ", position, " cannot be read"));
  }
}

SafetensorsHeader read_header(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw CheckpointError(str(file, ": ", error.message()));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw CheckpointError(str(file, ": cannot be opened"));
  std::array<std::byte, 8> first8{};
  const std::span<std::byte> start = std::span(first8).first(std::min<uint64_t>(8, size));
  read_exactly(in, 0, start, file);
  std::string json(header_length(start, size, file), '\0');
  read_exactly(in, 8, std::as_writable_bytes(std::span(json)), file);
  return parse_header(json, size - 8 - json.size(), file);
}

}  // namespace dtrain::checkpoint
