#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "checkpoint/safetensors_header.h"
#include "core/check.h"
#include "text/number_text.h"

namespace dtrain::checkpoint {
namespace {

constexpr std::pair<const char*, at::ScalarType> kDtypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
    {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
    {"U8", at::kByte},    {"BOOL", at::kBool}};

const char* dtype_name(at::ScalarType type, const std::string& tensor) {
  for (const auto& [name, known] : kDtypes) {
    if (known == type) return name;
  }
  throw Error(str("tensor \"", tensor, "\" has dtype ", at::toString(type),
                  ", which safetensors files do not hold"));
}

at::ScalarType scalar_type(const std::string& dtype) {
  for (const auto& [name, type] : kDtypes) {
    if (name == dtype) return type;
  }
  DTRAIN_CHECK(false, "dtype ", dtype, " passed the header's check");
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// In C++ a bool that is neither 0 nor 1 is undefined behavior.
void check_bools(const TensorEntry& entry, const at::Tensor& tensor, const std::string& file) {
  if (entry.dtype != "BOOL") return;
  for (const std::byte byte : bytes_of(tensor)) {
    if (byte > std::byte{1})
      throw CheckpointError(
          str(file, ": tensor \"", entry.name, "\" has a BOOL that is not 0 or 1"));
  }
}

// fetch(span, position) fills the span with the bytes of the data that begin at `position`.
template <typename Fetch>
TensorFile make_tensors(SafetensorsHeader header, const std::string& file, const Fetch& fetch) {
  TensorFile result;
  result.metadata = std::move(header.metadata);
  result.tensors.reserve(header.tensors.size());
  for (const TensorEntry& entry : header.tensors) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(scalar_type(entry.dtype)));
    if (tensor.nbytes() > 0) fetch(bytes_of(tensor), entry.begin);
    check_bools(entry, tensor, file);
    result.tensors.emplace_back(entry.name, std::move(tensor));
  }
  return result;
}

// In quotes, with the escapes that JSON requires. It is also the form of the files written so far.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00" + hex(std::as_bytes(std::span(&c, 1)));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

bool can_hold(at::ScalarType type) {
  return std::ranges::any_of(kDtypes, [&](const auto& known) { return known.second == type; });
}

std::vector<std::byte> to_safetensors(const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<at::Tensor> plain;
  for (const auto& [name, tensor] : tensors) {
    DTRAIN_CHECK(name != "__metadata__");
    plain.push_back(tensor.detach().cpu().contiguous());
  }
  // The data holds the wider types first, so that every tensor is aligned and a reader can map the
  // file. The header keeps the order of `tensors`.
  std::vector<size_t> order(plain.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return plain[a].element_size() > plain[b].element_size(); });
  std::vector<uint64_t> begin(plain.size());
  uint64_t data_bytes = 0;
  for (const size_t i : order) {
    begin[i] = data_bytes;
    data_bytes += plain[i].nbytes();
  }

  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      header += json_string(key) + ":" + json_string(value) + ",";
    header.back() = '}';
    header += ',';
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    header += json_string(tensors[i].first) + ":{\"dtype\":\"" +
              dtype_name(plain[i].scalar_type(), tensors[i].first) + "\",\"shape\":[";
    for (int64_t d = 0; d < plain[i].dim(); ++d)
      header += (d ? "," : "") + std::to_string(plain[i].size(d));
    header += str("],\"data_offsets\":[", begin[i], ",", begin[i] + plain[i].nbytes(), "]},");
  }
  if (header.size() > 1) header.pop_back();
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  // Never writes what read_safetensors() would refuse
  parse_header(header, data_bytes, "a file to be written");

  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::span<const std::byte> source = bytes_of(plain[i]);
    std::copy(source.begin(), source.end(),
              bytes.begin() + static_cast<int64_t>(8 + length + begin[i]));
  }
  return bytes;
}

TensorFile from_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const uint64_t length =
      header_length(bytes.first(std::min<size_t>(8, bytes.size())), bytes.size(), name);
  const std::span<const std::byte> json = bytes.subspan(8, length),
                                   data = bytes.subspan(8 + length);
  SafetensorsHeader header =
      parse_header({reinterpret_cast<const char*>(json.data()), json.size()}, data.size(), name);
  return make_tensors(std::move(header), name, [&](std::span<std::byte> out, uint64_t position) {
    std::memcpy(out.data(), data.data() + position, out.size());
  });
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  SafetensorsHeader header = read_header(path);
  const FileDescriptor in = open_safetensors(path);
  const uint64_t data_start = header.data_start;
  return make_tensors(std::move(header), path.string(),
                      [&](std::span<std::byte> out, uint64_t position) {
                        read_exactly(in, data_start + position, out, path.string());
                      });
}

}  // namespace dtrain::checkpoint
