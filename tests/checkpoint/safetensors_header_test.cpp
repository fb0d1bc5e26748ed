// For every rule of the safetensors format, a file that breaks it, and the message that says so.

#include "checkpoint/safetensors_header.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace {

// The bytes that operator new has allocated and not yet freed, to see how much memory a malicious
// header can take.
std::atomic<int64_t> g_live{0}, g_peak{0};

void count(int64_t bytes) {
  const int64_t live = g_live += bytes;
  if (live > g_peak) g_peak = live;
}

constexpr size_t kPrefix = 16;

}  // namespace

void* operator new(size_t size) {
  auto* memory = static_cast<char*>(std::malloc(size + kPrefix));
  if (memory == nullptr) throw std::bad_alloc();
  std::memcpy(memory, &size, sizeof size);
  count(static_cast<int64_t>(size));
  return memory + kPrefix;
}

// AddressSanitizer has one of its own, whose memory the operators below would not understand.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  char* start = static_cast<char*>(memory) - kPrefix;
  size_t size = 0;
  std::memcpy(&size, start, sizeof size);
  count(-static_cast<int64_t>(size));
  std::free(start);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace dtrain::checkpoint {
namespace {

using testing::expect_error;

std::vector<std::byte> file_of(const std::string& json, size_t data_bytes, uint64_t length) {
  std::vector<std::byte> bytes(8 + json.size() + data_bytes);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, json.data(), json.size());
  return bytes;
}

std::vector<std::byte> file_of(const std::string& json, size_t data_bytes) {
  return file_of(json, data_bytes, json.size());
}

void expect_refusal(const std::vector<std::byte>& bytes, std::initializer_list<std::string> parts) {
  const int64_t before = g_live;
  g_peak = before;
  expect_error<CheckpointError>([&] { from_safetensors(bytes, "m.safetensors"); }, parts);
  EXPECT_LE(g_peak - before, static_cast<int64_t>(bytes.size()) + (1 << 20))
      << "the refusal takes too much memory";
  expect_error<CheckpointError>([&] { from_safetensors(bytes, "m.safetensors"); },
                                {"m.safetensors"});
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(SafetensorsHeader, AcceptsAnyOrderSpaceAndEscapes) {
  const std::string json =
      "{ \"b\\u00fc\\ud83d\\ude00\\n\" : {\"shape\":[ 2 , "
      "1],\"data_offsets\":[4,8],\"dtype\":\"F16\"},\n" +
      entry("a", "F32", "[]", "[0,4]") + "," + entry("zero", "F64", "[3,0]", "[8,8]") +
      ",\"__metadata__\":{\"k\":\"v\\\"\"} }  ";
  const SafetensorsHeader header = parse_header(json, 8, "m");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "bü😀\n");
  EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(header.tensors[1].name, "a");
  EXPECT_TRUE(header.tensors[1].shape.empty());
  EXPECT_EQ(header.metadata.at("k"), "v\"");
  EXPECT_TRUE(parse_header("{}", 0, "m").tensors.empty());
}

TEST(SafetensorsRefusal, TooShortForALength) {
  expect_refusal({}, {"too short"});
  expect_refusal(std::vector<std::byte>(7), {"too short"});
}
TEST(SafetensorsRefusal, HeaderBeyondTheFormatsLimit) {
  expect_refusal(file_of("{}", 0, 100'000'001), {"100000001"});
}
TEST(SafetensorsRefusal, HeaderLengthNearTheLimitOfItsType) {
  expect_refusal(file_of("{}", 0, ~0ull), {"at most 100000000"});
}
TEST(SafetensorsRefusal, AFileOfTorchSaveIsNamedWithTheWayOut) {
  for (const std::string& beginning : {std::string("PK\x03\x04\x00\x00\x08\x08", 8),
                                       std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46")}) {
    const auto bytes = std::as_bytes(std::span(beginning));
    expect_error<CheckpointError>(
        [&] {
          from_safetensors({bytes.begin(), bytes.end()}, "my \"net\".pth");
        },
        {"is a file of torch.save", "runs code",
         "\n  import torch, safetensors.torch as s\n  s.save_file(",
         "torch.load(\"my \\\"net\\\".pth\", map_location=\"cpu\", weights_only=True)",
         "\"my \\\"net\\\".safetensors\")"});
    expect_error<CheckpointError>(
        [&] {
          from_safetensors({bytes.begin(), bytes.end()}, "net.safetensors");
        },
        {"torch.load(\"net.safetensors\"", "\"net.converted.safetensors\")"});
  }
}
TEST(SafetensorsRefusal, HeaderLongerThanTheFile) {
  expect_refusal(file_of("{}", 0, 3), {"truncated"});
}
TEST(SafetensorsRefusal, EmptyHeader) { expect_refusal(file_of("", 0), {"begin with '{'"}); }
TEST(SafetensorsRefusal, HeaderThatIsNotAnObject) {
  expect_refusal(file_of("[]", 0), {"begin with '{'"});
}
TEST(SafetensorsRefusal, NotUtf8) {
  for (const char* bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82",
                          "\xf0\x8f\xbf\xbf", "\x80"}) {
    expect_refusal(file_of("{\"" + std::string(bad) + "\":{}}", 0), {"not UTF-8 at byte 2"});
  }
}
TEST(SafetensorsRefusal, NotJson) {
  for (const char* bad : {"{", "{\"a\"", "{\"a\":", "{a:1}", "{\"a\":{},}", "{,}", "{\"a\" {}}"}) {
    expect_refusal(file_of(bad, 0), {"header byte"});
  }
}
TEST(SafetensorsRefusal, EndsInsideAString) {
  expect_refusal(file_of("{\"abc", 0), {"inside a string"});
}
TEST(SafetensorsRefusal, ControlCharacterInAString) {
  expect_refusal(file_of("{\"a\nb\":{}}", 0), {"control character"});
}
TEST(SafetensorsRefusal, BadEscapes) {
  expect_refusal(file_of(R"({"\x":{}})", 0), {"forbidden character after backslash"});
  expect_refusal(file_of(R"({"\u12g4":{}})", 0), {"'\\u' must be followed by 4 hex digits"});
  expect_refusal(file_of(R"({"\ud800":{}})", 0), {"surrogate"});
  expect_refusal(file_of(R"({"\ud800\u0041":{}})", 0), {"surrogate"});
  expect_refusal(file_of(R"({"\udc00":{}})", 0), {"surrogate"});
}
TEST(SafetensorsRefusal, SomethingAfterTheObject) {
  expect_refusal(file_of("{}{}", 0), {"after its closing brace"});
  expect_refusal(file_of(std::string("{}\0", 3), 0), {"after its closing brace"});
}
TEST(SafetensorsRefusal, DuplicateTensor) {
  expect_refusal(
      file_of("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}",
              2),
      {"\"a\"", "twice"});
}
TEST(SafetensorsRefusal, DuplicateTensorByEscape) {
  expect_refusal(file_of("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                             entry("\\u0061", "U8", "[1]", "[1,2]") + "}",
                         2),
                 {"\"a\"", "twice"});
}
TEST(SafetensorsRefusal, DuplicateKeyOfATensor) {
  expect_refusal(
      file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
      {"dtype", "twice"});
}
TEST(SafetensorsRefusal, DuplicateMetadata) {
  expect_refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), {"__metadata__ twice"});
  expect_refusal(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), {"\"k\" twice"});
}
TEST(SafetensorsRefusal, MetadataThatIsNotText) {
  expect_refusal(file_of(R"({"__metadata__":{"k":1}})", 0), {"\"k\"", "not text"});
}
TEST(SafetensorsRefusal, ValuesOfOtherTypes) {
  for (const char* bad : {"1", "[]", "null", "\"x\"", "true", "1.5"}) {
    expect_refusal(file_of(str("{\"a\":", bad, "}"), 0),
                   {"\"a\" that is not an object (header byte"});
    expect_refusal(file_of(str("{\"__metadata__\":", bad, "}"), 0),
                   {"\"__metadata__\" that is not an object"});
  }
  for (const char* bad : {"1", "[]", "{}", "null", "-1", "false", "1.5"}) {
    expect_refusal(file_of(str("{\"a\":{\"dtype\":", bad, "}}"), 0),
                   {"a dtype of tensor \"a\" that is not text"});
    expect_refusal(file_of(str("{\"__metadata__\":{\"k\":", bad, "}}"), 0),
                   {"\"k\" that is not text"});
  }
  for (const char* bad : {"1", "{}", "null", "\"1\""}) {
    expect_refusal(file_of(str("{\"a\":{\"shape\":", bad, "}}"), 0),
                   {"a shape of tensor \"a\" that is not a list"});
  }
}
// nlohmann's messages quote the text that cannot be read.
TEST(SafetensorsRefusal, AMessageDoesNotQuoteEndlessText) {
  for (const std::string& bad :
       {std::string(100'000, '9') + "e999999", "tr" + std::string(100'000, 'u')}) {
    try {
      parse_header("{\"a\":{\"shape\":[" + bad + "]}}", 0, "m");
      ADD_FAILURE() << "accepted";
    } catch (const CheckpointError& error) {
      EXPECT_LT(std::strlen(error.what()), 200u);
    }
  }
}
TEST(SafetensorsRefusal, UnknownKey) {
  expect_refusal(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
                 {"unknown key \"x\""});
}
TEST(SafetensorsRefusal, MissingKeys) {
  expect_refusal(file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1),
                 {"lacks", "dtype", "\"a\""});
  expect_refusal(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), {"lacks", "shape"});
  expect_refusal(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1), {"lacks", "data_offsets"});
}
TEST(SafetensorsRefusal, UnknownDtype) {
  expect_refusal(file_of("{" + entry("a", "F8_E4M3", "[1]", "[0,1]") + "}", 1),
                 {"\"a\"", "unknown dtype \"F8_E4M3\""});
}
TEST(SafetensorsRefusal, ShapeOfOtherThanNaturalNumbers) {
  for (const char* bad : {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[01]", "[[1]]", "[null]", "1"}) {
    expect_refusal(file_of("{" + entry("a", "U8", bad, "[0,1]") + "}", 1), {"header byte"});
  }
}
TEST(SafetensorsRefusal, ShapeOverflow) {
  expect_refusal(file_of("{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0),
                 {"2^63"});
  expect_refusal(file_of("{" + entry("a", "F32", "[0,4294967296,4294967296]", "[0,0]") + "}", 0),
                 {"2^63"});
  expect_refusal(file_of("{" + entry("a", "F64", "[2305843009213693952]", "[0,0]") + "}", 0),
                 {"2^63"});
  expect_refusal(file_of("{" + entry("a", "U8", "[9223372036854775808]", "[0,0]") + "}", 0),
                 {"2^63"});
  expect_refusal(file_of("{" + entry("a", "U8", "[99999999999999999999999]", "[0,0]") + "}", 0),
                 {"2^63"});
}
TEST(SafetensorsRefusal, WrongNumberOfOffsets) {
  expect_refusal(file_of("{" + entry("a", "U8", "[1]", "[0,1,2]") + "}", 1), {"3 data_offsets"});
  expect_refusal(file_of("{" + entry("a", "U8", "[1]", "[]") + "}", 1), {"0 data_offsets"});
}
TEST(SafetensorsRefusal, EndBeforeBegin) {
  expect_refusal(file_of("{" + entry("a", "U8", "[1]", "[1,0]") + "}", 1),
                 {"\"a\"", "before it begins"});
}
TEST(SafetensorsRefusal, BytesThatDoNotMatchTheShape) {
  expect_refusal(file_of("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4), {"4 bytes", "need 8"});
  expect_refusal(file_of("{" + entry("a", "F32", "[0]", "[0,4]") + "}", 4), {"4 bytes", "need 0"});
}
TEST(SafetensorsRefusal, BeyondTheFile) {
  expect_refusal(file_of("{" + entry("a", "F32", "[2]", "[0,8]") + "}", 7), {"\"a\"", "truncated"});
}
TEST(SafetensorsRefusal, AHugeClaimTakesNoMemory) {
  expect_refusal(file_of("{" + entry("a", "U8", "[1099511627776]", "[0,1099511627776]") + "}", 7),
                 {"truncated"});
}
TEST(SafetensorsRefusal, Hole) {
  expect_refusal(
      file_of("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "U8", "[1]", "[2,3]") + "}",
              3),
      {"\"b\"", "hole"});
  expect_refusal(file_of("{" + entry("a", "U8", "[1]", "[1,2]") + "}", 2), {"\"a\"", "hole"});
}
TEST(SafetensorsRefusal, Overlap) {
  expect_refusal(
      file_of("{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}",
              3),
      {"\"b\"", "inside the one before"});
}
TEST(SafetensorsRefusal, TrailingBytes) {
  expect_refusal(file_of("{" + entry("a", "U8", "[1]", "[0,1]") + "}", 3), {"2 bytes follow"});
}
TEST(SafetensorsRefusal, ABoolThatIsNot0Or1) {
  std::vector<std::byte> bytes = file_of("{" + entry("a", "BOOL", "[1]", "[0,1]") + "}", 1);
  bytes.back() = std::byte{2};
  expect_refusal(bytes, {"\"a\"", "BOOL"});
}
TEST(SafetensorsRefusal, DeepNestingAndLongNames) {
  expect_refusal(file_of("{\"a\":" + std::string(5'000'000, '['), 0), {"header byte"});
  expect_refusal(file_of("{\"a\":" + std::string(5'000'000, '{'), 0), {"header byte"});
  expect_refusal(file_of("{\"" + std::string(5'000'000, 'x'), 0), {"inside a string"});
}
TEST(SafetensorsRefusal, HugeTokens) {
  constexpr size_t kAbove = (8 << 20) + 1;
  expect_refusal(file_of("{\"" + std::string(kAbove, 'x') + "\\q\":{}}", 0),
                 {"more than 8 MiB at header byte 1"});
  expect_refusal(file_of("{\"__metadata__\":{\"k\":\"" + std::string(kAbove, 'x') + "\"}}", 0),
                 {"more than 8 MiB"});
  expect_refusal(file_of("{\"a\":" + std::string(kAbove, '1') + "}", 0),
                 {"more than 8 MiB at header byte 5"});
}
TEST(SafetensorsHeader, TakesLongMetadata) {
  const std::string json = "{\"__metadata__\":{\"k\":\"" + std::string(7 << 20, 'x') + "\"}}" +
                           std::string(9 << 20, ' ');
  EXPECT_EQ(parse_header(json, 0, "m.safetensors").metadata.at("k").size(), 7u << 20);
}
TEST(SafetensorsRefusal, MissingFile) {
  const testing::TempDir folder;
  expect_error<CheckpointError>([&] { read_safetensors(folder / "absent"); },
                                {"absent", "No such file"});
  expect_error<CheckpointError>([&] { read_safetensors(folder.path()); }, {"directory"});
}

}  // namespace
}  // namespace dtrain::checkpoint
