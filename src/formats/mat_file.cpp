#include "formats/mat_file.h"

#include <matio.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/read_file.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

constexpr size_t kLargestDimension = 100000, kMostElements = 10000000;
constexpr uint64_t kMostMatBytes = uint64_t{64} << 20;  // files of 300W-LP have 0.3 MiB

struct MatCloser {
  void operator()(mat_t* file) const { Mat_Close(file); }
};
struct VariableDeleter {
  void operator()(matvar_t* variable) const { Mat_VarFree(variable); }
};
using MatFile = std::unique_ptr<mat_t, MatCloser>;
using Variable = std::unique_ptr<matvar_t, VariableDeleter>;

// libmatio logs to stderr by default; here its last message becomes part of our error messages.
std::mutex matio_lock;
std::string matio_message;

void keep_message(int, char* message) { matio_message = message; }

void quiet_matio() {
  static const int once = Mat_LogInitFunc("dtrain", keep_message);
  static_cast<void>(once);
  matio_message.clear();
}

// The start of a variable, which has its header, and the size of all of it.
struct VariableBytes {
  std::string begin;
  size_t bytes = 0;
};

constexpr size_t kBegin = 4096;

// nullopt: zlib reports an error, or the end is missing.
std::optional<VariableBytes> decompressed(std::string_view bytes) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw Error("zlib cannot be started");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::array<char, 16384> output;
  VariableBytes variable;
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(output.data());
    stream.avail_out = output.size();
    state = inflate(&stream, Z_NO_FLUSH);
    const size_t got = output.size() - stream.avail_out;
    if (variable.begin.size() < kBegin) variable.begin.append(output.data(), std::min(got, kBegin));
    variable.bytes += got;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END) return std::nullopt;
  return variable;
}

std::string damaged(const std::string& what) {
  return str("damaged .mat file: ", what, matio_message.empty() ? "" : " (" + matio_message + ")");
}

// One element of the format: its type, and its bytes, which begin at `at`.
struct Element {
  uint32_t type = 0, bytes = 0;
  size_t at = 0, next = 0;  // where its bytes begin, and the element after it
};

Element element_at(std::string_view text, size_t at) {
  constexpr size_t kTag = 8, kAligned = 8;
  uint32_t words[2] = {0, 0};
  if (at > text.size() || text.size() - at < kTag)
    throw DataError(damaged("the header of a variable is cut"));
  std::memcpy(words, text.data() + at, kTag);
  if (const uint32_t bytes = words[0] >> 16; bytes != 0) {
    if (bytes > 4) throw DataError(damaged("the header of a variable is wrong"));
    return {words[0] & 0xffff, bytes, at + 4, at + kTag};
  }
  const size_t padded = (size_t{words[1]} + kAligned - 1) / kAligned * kAligned;
  return {words[0], words[1], at + kTag, at + kTag + padded};
}

// libmatio trusts the lengths in the header of a variable, and asks for as much memory: gigabytes
// for a file of 300 bytes. Returns the variable's name; "" if libmatio passes over it.
std::string check_header(const VariableBytes& variable) {
  constexpr uint32_t kMatrix = 14, kInt8 = 1, kInt32 = 5, kUint32 = 6, kNested = 3, kSparse = 5;
  constexpr size_t kMostDimensions = 32, kTag = 8;
  const std::string_view begin = variable.begin;
  if (element_at(begin, 0).type != kMatrix) return "";
  const Element flags = element_at(begin, kTag), sizes = element_at(begin, flags.next);
  if (flags.type != kUint32 || flags.bytes != 8 || sizes.type != kInt32 ||
      sizes.bytes > kMostDimensions * 4 || sizes.at + sizes.bytes > begin.size()) {
    throw DataError(damaged("the header of a variable is wrong"));
  }
  const Element name = element_at(begin, sizes.next);
  if (name.type != kInt8 || name.at + name.bytes > variable.bytes) {
    throw DataError(damaged("the name of a variable is longer than the variable"));
  }
  constexpr size_t kVeryMany = size_t{1} << 40;
  size_t elements = 1;
  for (size_t i = 0; i < sizes.bytes / 4; ++i) {
    uint32_t size = 0;
    std::memcpy(&size, begin.data() + sizes.at + 4 * i, sizeof size);
    elements = std::min(kVeryMany, elements * std::min<size_t>(size, kVeryMany >> 20));
  }
  // A number takes a byte or more. Cells and structures hold variables, each of which has a tag; of
  // a sparse array only some elements are stored.
  const auto kind = static_cast<unsigned char>(begin[flags.at]);
  const size_t each = kind <= kNested ? kTag : 1;
  if (kind != kSparse && elements > variable.bytes / each) {
    throw DataError(damaged("a variable is implausibly large"));
  }
  return std::string(begin.substr(std::min(name.at, begin.size()), name.bytes));
}

// For variables whose compressed bytes are truncated or changed, libmatio silently returns zeros,
// which are plausible angles. So this first checks that each variable is complete and that zlib
// decompresses it without an error.
void check_whole(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  constexpr size_t kHeader = 128, kTag = 8;
  constexpr uint32_t kCompressed = 15;
  if (text.size() < kHeader) throw DataError(damaged(str("it has ", text.size(), " bytes")));
  const std::string version = text.substr(124, 4);
  if (version == std::string("\0\2IM", 4) || version == std::string("\2\0MI", 4)) {
    throw DataError(
        "a .mat file of MATLAB 7.3, which is HDF5: save it as version 5, with save(..., '-v7') or "
        "scipy.io.savemat");
  }
  // On a damaged file that it takes for version 4, libmatio asks for memory without end.
  if (version != std::string("\0\1IM", 4))
    throw DataError("not a .mat file of version 5, little endian");
  std::set<std::string> seen;
  for (size_t at = kHeader; at < text.size();) {
    uint32_t tag[2] = {0, 0};  // type, bytes
    if (text.size() - at >= kTag) std::memcpy(tag, text.data() + at, kTag);
    if (text.size() - at < kTag || text.size() - at - kTag < tag[1])
      throw DataError(damaged("it is truncated"));
    const size_t end = at + kTag + tag[1];
    std::optional<VariableBytes> variable;
    if (tag[0] == kCompressed) {
      variable = decompressed(std::string_view(text).substr(at + kTag, tag[1]));
      if (!variable) throw DataError(damaged("a variable cannot be decompressed"));
    } else {
      variable = {text.substr(at, std::min(kBegin, end - at)), end - at};
    }
    const std::string name = check_header(*variable);
    if (!name.empty() &&
        !seen.insert(name).second) {  // libmatio reads the first one, scipy the last one
      throw DataError(damaged(str("the variable ", name, " is in it twice")));
    }
    at = end;
  }
}

template <typename T>
std::vector<double> numbers_as(const matvar_t& variable, size_t count) {
  const T* data = static_cast<const T*>(variable.data);
  return {data, data + count};
}

std::vector<double> numbers(const matvar_t& variable, size_t count) {
  using Read = std::vector<double> (*)(const matvar_t&, size_t);
  // MAT_C_UINT8: also of logical values
  static constexpr std::pair<matio_classes, Read> kReads[] = {
      {MAT_C_DOUBLE, numbers_as<double>}, {MAT_C_SINGLE, numbers_as<float>},
      {MAT_C_INT64, numbers_as<int64_t>}, {MAT_C_UINT64, numbers_as<uint64_t>},
      {MAT_C_INT32, numbers_as<int32_t>}, {MAT_C_UINT32, numbers_as<uint32_t>},
      {MAT_C_INT16, numbers_as<int16_t>}, {MAT_C_UINT16, numbers_as<uint16_t>},
      {MAT_C_INT8, numbers_as<int8_t>},   {MAT_C_UINT8, numbers_as<uint8_t>}};
  for (const auto& [type, read] : kReads) {
    if (variable.class_type == type) return read(variable, count);
  }
  throw DataError(str(".mat variable ", variable.name, " is not a full matrix of numbers"));
}

Matrix to_matrix(const matvar_t& variable) {
  const std::string name = variable.name;
  if (variable.rank != 2)
    throw DataError(str(".mat variable ", name, " has ", variable.rank, " dimensions, not 2"));
  Matrix matrix{.rows = variable.dims[0], .columns = variable.dims[1], .values = {}};
  const size_t count = matrix.rows * matrix.columns;
  if (!variable.data && count > 0) throw DataError(damaged("no data for " + name));
  if (variable.isComplex) throw DataError(str(".mat variable ", name, " is complex"));
  matrix.values = numbers(variable, count);
  return matrix;
}

}  // namespace

Matrices read_mat(const std::filesystem::path& file, const std::vector<std::string>& names) {
  const std::lock_guard guard(matio_lock);
  quiet_matio();
  if (!is_there(file)) throw DataError("no such .mat file");
  if (!std::filesystem::is_regular_file(file))
    throw DataError("the .mat file is not a regular file");
  check_file_bytes(std::filesystem::file_size(file), kMostMatBytes);
  check_whole(file);
  const MatFile mat(Mat_Open(file.c_str(), MAT_ACC_RDONLY));
  if (!mat) throw DataError(damaged("it cannot be opened"));
  Matrices result;
  for (const std::string& name : names) {
    const Variable variable(Mat_VarReadInfo(mat.get(), name.c_str()));
    if (!variable) continue;
    size_t elements = 1;
    for (int d = 0; d < variable->rank; ++d) {  // before memory is allocated for a damaged header
      elements *= std::min(variable->dims[d], kLargestDimension + 1);
      if (variable->dims[d] > kLargestDimension || elements > kMostElements) {
        throw DataError(damaged(name + " is implausibly large"));
      }
    }
    if (Mat_VarReadDataAll(mat.get(), variable.get()) != 0)
      throw DataError(damaged(name + " cannot be read"));
    if (!matio_message.empty()) throw DataError(damaged(name + " cannot be read"));
    result[name] = to_matrix(*variable);
  }
  return result;
}

void write_mat(const std::filesystem::path& file, const Matrices& matrices) {
  const std::lock_guard guard(matio_lock);
  quiet_matio();
  // No date, so that equal data gives equal files
  const char* header = "MATLAB 5.0 MAT-file, written by dtrain";
  const MatFile mat(Mat_CreateVer(file.c_str(), header, MAT_FT_MAT5));
  if (!mat) throw OutputError(str("cannot write ", file.string(), ": ", std::strerror(errno)));
  for (const auto& [name, matrix] : matrices) {
    std::vector<float> values(matrix.values.begin(), matrix.values.end());
    size_t dimensions[2] = {matrix.rows, matrix.columns};
    const Variable variable(Mat_VarCreate(name.c_str(), MAT_C_SINGLE, MAT_T_SINGLE, 2, dimensions,
                                          values.data(), MAT_F_DONT_COPY_DATA));
    if (!variable || Mat_VarWrite(mat.get(), variable.get(), MAT_COMPRESSION_ZLIB) != 0) {
      throw OutputError(
          str("cannot write ", name, " to ", file.string(), ": ", std::strerror(errno)));
    }
  }
}

}  // namespace dtrain::formats
