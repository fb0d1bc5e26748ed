#include "formats/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "formats/npz.h"
#include "formats/read_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

using testing::expect_error;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A .npy file with any header and any data.
std::vector<std::byte> file_of(const std::string& header, const std::string& data,
                               int version = 1) {
  std::string all = "\x93NUMPY";
  all += static_cast<char>(version);
  all += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    all += static_cast<char>(header.size() >> (8 * i) & 255);
  return bytes_of(all + header + data);
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const char* fortran = "False") {
  return str("{'descr': ", descr, ", 'fortran_order': ", fortran, ", 'shape': ", shape, ", }");
}

TEST(Npy, ReadsBackWhatWasWritten) {
  const std::vector<float> values{1.5f, -2, 3, 4, 5, 6};
  const NpyArray array = parse_npy(to_npy(values, {3, 2}));
  EXPECT_EQ(array.header.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(array.header.data_offset % 64, 0u);
  EXPECT_EQ(array.to_float32(), values);
  EXPECT_EQ(parse_npy(to_npy(std::vector<int64_t>{7, -8}, {2})).to_int64(),
            (std::vector<int64_t>{7, -8}));
}

TEST(Npy, ReadsAllThreeVersions) {
  for (int version = 1; version <= 3; ++version) {
    const NpyArray array = parse_npy(file_of(dictionary("'|u1'", "(2,)"), "\x05\xff", version));
    EXPECT_EQ(array.to_float32(), (std::vector<float>{5, 255})) << version;
  }
  expect_error<DataError>([] { parse_npy(file_of(dictionary("'|u1'", "(0,)"), "", 4)); },
                          {"version 4"});
}

TEST(Npy, ReadsFortranOrderAndBigEndian) {
  const NpyArray array = parse_npy(file_of(dictionary("'>i2'", "(2, 3)", "True"),
                                           std::string("\0\1\0\2\0\3\0\4\0\5\xff\xfa", 12)));
  EXPECT_EQ(array.to_int64(), (std::vector<int64_t>{1, 3, 5, 2, 4, -6}));
  const NpyArray cube = parse_npy(
      file_of(dictionary("'|u1'", "(2, 2, 2)", "True"), std::string("\0\4\2\6\1\5\3\7", 8)));
  EXPECT_EQ(cube.to_int64(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Npy, ConvertsFloat16Exactly) {
  const auto half = [](const std::string& two) {
    return parse_npy(file_of(dictionary("'<f2'", "(1,)"), two)).to_float32()[0];
  };
  EXPECT_EQ(half(std::string("\x00\x3c", 2)), 1);
  EXPECT_EQ(half(std::string("\x01\x00", 2)), std::ldexp(1.0f, -24));
  EXPECT_EQ(half(std::string("\xff\x7b", 2)), 65504);
  EXPECT_EQ(half(std::string("\x00\xfc", 2)), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half(std::string("\x01\x7e", 2))));
}

// Programs other than NumPy write them, and NumPy reads them.
TEST(Npy, ReadsTypesWithoutByteOrderAndByName) {
  constexpr std::pair<const char*, const char*> kTypes[] = {
      {"b1", "bool"},       {"?", "bool"},          {"bool", "bool"},      {"i1", "int8"},
      {"b", "int8"},        {"int8", "int8"},       {"i2", "int16"},       {"h", "int16"},
      {"int16", "int16"},   {"i4", "int32"},        {"i", "int32"},        {"int32", "int32"},
      {"i8", "int64"},      {"q", "int64"},         {"int64", "int64"},    {"u1", "uint8"},
      {"B", "uint8"},       {"uint8", "uint8"},     {"u2", "uint16"},      {"H", "uint16"},
      {"uint16", "uint16"}, {"u4", "uint32"},       {"I", "uint32"},       {"uint32", "uint32"},
      {"u8", "uint64"},     {"Q", "uint64"},        {"uint64", "uint64"},  {"f2", "float16"},
      {"e", "float16"},     {"float16", "float16"}, {"half", "float16"},   {"f4", "float32"},
      {"f", "float32"},     {"float32", "float32"}, {"single", "float32"}, {"f8", "float64"},
      {"d", "float64"},     {"float64", "float64"}, {"double", "float64"}, {"float", "float64"},
      {"=f4", "float32"},   {"<f", "float32"},      {">d", "float64"}};
  for (const auto& [written, type] : kTypes) {
    const NpyHeader header =
        parse_npy_header(file_of(dictionary(str("'", written, "'"), "(1,)"), ""));
    EXPECT_EQ(header.type(), type) << written;
    EXPECT_EQ(header.big_endian, written[0] == '>') << written;
  }
  const float one = 1;
  const std::string bytes(reinterpret_cast<const char*>(&one), sizeof one);
  EXPECT_EQ(parse_npy(file_of(dictionary("'f4'", "(1,)"), bytes)).to_float32(),
            std::vector<float>{1});
  EXPECT_EQ(parse_npy(file_of(dictionary("'float32'", "(1,)"), bytes)).to_float32(),
            std::vector<float>{1});
  EXPECT_EQ(parse_npy_text(file_of(dictionary("'S3'", "(1,)"), "abc")),
            std::vector<std::string>{"abc"});
}

TEST(Npy, RefusesOtherElementTypesByName) {
  const auto refused = [](const std::string& descr, const char* part) {
    expect_error<DataError>(
        [&] { parse_npy(file_of(dictionary(descr, "(1,)"), std::string(64, '\0'))); }, {part});
  };
  refused("'|O'", "Python objects");
  refused("'<U5'", "strings");
  refused("'|S5'", "strings");
  refused("'<c8'", "complex");
  refused("'<M8[ns]'", "dates");
  refused("'<f16'", "unsupported size");
  refused("'<f16'", "float16, 32 or 64, integers of 8 to 64 bits, or bool are expected");
  refused("'<i3'", "unsupported size");
  refused("[('a', '<f4'), ('b', '<i4')]", "structured");
  refused(
      "'<V2'",
      "elements of 2 bytes without a type, as NumPy writes bfloat16: save array.astype('float32')");
  refused("'bfloat16'", "bfloat16");
  refused("'|V1'", "elements of 1 byte without a type, as NumPy writes float8 and int4");
  refused("'|V8'", "structured or void");
  refused("'int'", "unsupported size");  // of 4 or 8 bytes, depending on the machine
  refused("'<'", "unknown");
  refused("''", "unknown");
}

TEST(Npy, RefusesWrongHeaders) {
  const auto refused = [](const std::vector<std::byte>& file, const char* part) {
    expect_error<DataError>([&] { parse_npy(file); }, {part});
  };
  refused({}, "empty");
  refused(bytes_of("PK\3\4"), "not a .npy file");
  refused(bytes_of("\x93NUMPY"), "truncated");
  refused(file_of(dictionary("'<f4'", "(3, 2)"), std::string(23, 'x')), "truncated");
  refused(file_of(dictionary("'<f4'", "(3, 2)"), std::string(25, 'x')), "25 bytes of data");
  refused(file_of(dictionary("'<f8'", "(4611686018427387904, 4)"), "x"), "more bytes than a file");
  refused(file_of(dictionary("'<f8'", "(99999999999999999999,)"), "x"), "beyond 64 bits");
  refused(file_of(dictionary("'<f4'", "(-1,)"), "x"), "not a number");
  refused(file_of("{'descr': '<f4', 'shape': (1,)}", "xxxx"), "missing");
  refused(file_of("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", "xxxx"),
          "neither True nor False");
  refused(file_of(dictionary("'<f4'", "(1,)") + "; import os", "xxxx"), "follows");
  refused(file_of(std::string(70000, ' '), "", 2), "70000 bytes");
  const NpyArray nothing =
      parse_npy(file_of(dictionary("'<f4'", "(4611686018427387904, 0, 4611686018427387904)"), ""));
  EXPECT_TRUE(nothing.to_float32().empty());
}

// A changed byte is either detected or changes values only. It never causes a crash or a
// large allocation.
TEST(Npy, ChangedBytesAreHarmless) {
  const std::vector<std::byte> good = to_npy(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  int64_t refused = 0;
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    std::vector<std::byte> file = good;
    const uint64_t changes = 1 + keyed(1, trial) % 4;
    for (uint64_t c = 0; c < changes; ++c) {
      const uint64_t word = keyed(2, trial, c);
      file[word % (file.size() - 20)] = static_cast<std::byte>(word >> 32);
    }
    if (keyed(3, trial) % 4 == 0) file.resize(keyed(4, trial) % file.size());
    try {
      EXPECT_LE(parse_npy(file).to_float32().size(), 24u);
    } catch (const DataError& error) {
      ++refused;
      EXPECT_FALSE(std::string(error.what()).empty());
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(Npy, ToInt64RequiresWholeNumbers) {
  EXPECT_EQ(parse_npy(to_npy(std::vector<float>{1, -3}, {2})).to_int64(),
            (std::vector<int64_t>{1, -3}));
  expect_error<DataError>([] { parse_npy(to_npy(std::vector<float>{1.5f}, {1})).to_int64(); },
                          {"1.5"});
  expect_error<DataError>([] { parse_npy(to_npy(std::vector<float>{NAN}, {1})).to_int64(); },
                          {"whole numbers"});
  expect_error<DataError>(
      [] { parse_npy(file_of(dictionary("'<u8'", "(1,)"), std::string(8, '\xff'))).to_int64(); },
      {"18446744073709551615"});
}

TEST(Npy, ReadsRangesInBothOrders) {
  const std::string data("\0\4\2\6\1\5\3\7", 8);
  const NpyArray fortran = parse_npy(file_of(dictionary("'|u1'", "(2, 2, 2)", "True"), data));
  const NpyArray plain =
      parse_npy(file_of(dictionary("'|u1'", "(8,)"), std::string("\0\1\2\3\4\5\6\7", 8)));
  for (const NpyArray* array : {&fortran, &plain}) {
    EXPECT_EQ(array->to_uint8(3, 4), (std::vector<uint8_t>{3, 4, 5, 6}));
    EXPECT_EQ(array->to_float32(7, 1), std::vector<float>{7});
    EXPECT_EQ(array->to_int64(8, 0), std::vector<int64_t>{});
    EXPECT_THROW(array->to_int64(7, 2), Error);
  }
}

TEST(Npy, ReadsStrings) {
  const auto text = [](const std::string& descr, const std::string& shape,
                       const std::string& data) {
    return parse_npy_text(file_of(dictionary("'" + descr + "'", shape), data));
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(text("|S3", "(3,)", std::string("abca\0\0\xc3\xbc\0", 9)),
            (Texts{"abc", "a", "\xc3\xbc"}));
  // U+FC, z, U+20AC, U+1F98A
  const std::string wide("\xfc\0\0\0z\0\0\0\xac\x20\0\0\x8a\xf9\x01\0", 16);
  EXPECT_EQ(text("<U2", "(2,)", wide), (Texts{"\xc3\xbcz", "\xe2\x82\xac\xf0\x9f\xa6\x8a"}));
  EXPECT_EQ(text(">U1", "(1,)", std::string("\0\0\0\xfc", 4)), Texts{"\xc3\xbc"});
  EXPECT_EQ(text("<U5", "(0,)", ""), Texts{});
  const auto refused = [&](const std::string& descr, const std::string& shape,
                           const std::string& data, const char* part) {
    expect_error<DataError>([&] { text(descr, shape, data); }, {part});
  };
  refused("|S1", "(1,)", "\xff", "element 0 is not UTF-8");
  refused("<U1", "(1,)", std::string("\0\xd8\0\0", 4), "element 0 is not UTF-8");  // a surrogate
  // No code point
  refused("<U1", "(1,)", std::string("\xff\xff\xff\xff", 4), "element 0 is not UTF-8");
  refused("|S2", "(1, 2)", "abcd", "one dimension");
  refused("|S2", "(2,)", "abc", "truncated");
  refused("<f4", "(1,)", "abcd", "no strings (dtype '<f4'); an array of strings is expected");
  refused("|O", "(1,)", "12345678", "Python objects");
  for (const char* size : {"|S0", "|S", "<U0", "<U99999999999", "<U1048577", "<U-1"}) {
    refused(size, "(1,)", "", "unsupported length");
  }
}

TEST(Npy, ReadsOnlyTheHeaderOfAFile) {
  const testing::TempDir folder;
  const auto write = [&](const std::vector<std::byte>& bytes) {
    std::ofstream out(folder / "a.npy", std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  };
  write(to_npy(std::vector<float>(5000), {1000, 5}));
  EXPECT_EQ(read_npy_header(folder / "a.npy").shape, (std::vector<int64_t>{1000, 5}));
  write(file_of(dictionary("'<f4'", "(1000, 5)") + std::string(3000, ' '),
                std::string(20000, 'x')));  // padded
  EXPECT_EQ(read_npy_header(folder / "a.npy").data_offset,
            10 + dictionary("'<f4'", "(1000, 5)").size() + 3000);
  expect_error<DataError>([&] { read_npy_header(folder / "absent.npy"); }, {"No such file"});
  expect_error<DataError>([&] { read_file(folder.path()); }, {"not a regular file"});
}

TEST(Npy, AllocatesNoMemoryBeyondTheDeclaredSize) {
  const testing::TempDir folder;
  std::ofstream(folder / "a.npy", std::ios::binary) << "\x93NUMPY";
  std::filesystem::resize_file(folder / "a.npy", uintmax_t{1} << 40);  // a sparse file
  expect_error<DataError>([&] { read_npy(folder / "a.npy"); }, {"damaged .npy header"});
  const std::vector<std::byte> whole = to_npy(std::vector<float>{1, 2}, {2});
  std::ofstream(folder / "a.npy", std::ios::binary)
      .write(reinterpret_cast<const char*>(whole.data()),
             static_cast<std::streamsize>(whole.size()));
  std::filesystem::resize_file(folder / "a.npy", uintmax_t{1} << 40);
  expect_error<DataError>([&] { read_npy(folder / "a.npy"); }, {"declares float32 [2] (8 bytes)"});
  const std::vector<std::byte> long_one =
      file_of(dictionary("'<f4'", str("(", int64_t{1} << 38, ",)")), "");
  std::ofstream(folder / "a.npy", std::ios::binary)
      .write(reinterpret_cast<const char*>(long_one.data()),
             static_cast<std::streamsize>(long_one.size()));
  std::filesystem::resize_file(folder / "a.npy", long_one.size() + (uintmax_t{1} << 40));
  expect_error<DataError>([&] { read_npy(folder / "a.npy"); }, {"1.0 TiB", "at most"});
}

TEST(Npz, ReadsBackWhatWasWritten) {
  const testing::TempDir folder;
  write_npz(folder / "a.npz", {{"x", to_npy(std::vector<float>{1, 2}, {2})},
                               {"y", to_npy(std::vector<int64_t>{3}, {1})}});
  const NpzFile file(folder / "a.npz");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(file.contents(), "its arrays are x, y");
  EXPECT_EQ(file.read("x")->to_float32(), (std::vector<float>{1, 2}));
  EXPECT_FALSE(file.read("z").has_value());
  EXPECT_FALSE(file.read_text("z").has_value());
  expect_error<DataError>([&] { file.read_text("x"); }, {"its array x: no strings"});
}

TEST(Npz, MayHaveNoArrays) {
  const testing::TempDir folder;
  std::ofstream(folder / "a.npz", std::ios::binary)
      << "PK\5\6" << std::string(18, '\0');  // as np.savez() writes it
  EXPECT_EQ(NpzFile(folder / "a.npz").contents(), "it has no arrays at all");
}

TEST(Npz, RefusesAnArrayThatIsInItTwice) {
  const testing::TempDir folder;
  write_npz(folder / "a.npz", {{"x", to_npy(std::vector<float>{1, 2}, {2})},
                               {"y", to_npy(std::vector<float>{3}, {1})}});
  const std::vector<std::byte> whole = read_file(folder / "a.npz");
  std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  for (size_t at = 0; (at = text.find("y.npy", at)) != std::string::npos;) text[at] = 'x';
  std::ofstream(folder / "a.npz", std::ios::binary) << text;
  expect_error<DataError>([&] { NpzFile(folder / "a.npz"); },
                          {"the array x is in it twice", "NumPy reads the last"});
}

TEST(Npz, DetectsDamage) {
  const testing::TempDir folder;
  const std::vector<float> values(4000, 1.25f);
  write_npz(folder / "a.npz", {{"x", to_npy(values, {4000})}, {"y", bytes_of("no array")}});
  const std::vector<std::byte> good = read_file(folder / "a.npz");
  const auto write = [&](const std::vector<std::byte>& bytes) {
    std::ofstream out(folder / "b.npz", std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  };
  expect_error<DataError>([&] { NpzFile(folder / "a.npz").read("y"); },
                          {"its array y", "not a .npy file"});
  std::vector<std::byte> flipped = good;
  flipped[8000] ^= std::byte{1};
  write(flipped);
  expect_error<DataError>([&] { NpzFile(folder / "b.npz").read("x"); },
                          {"its array x: damaged", "CRC"});
  write({good.begin(), good.begin() + 9000});
  expect_error<DataError>([&] { NpzFile(folder / "b.npz"); }, {"not a .npz file"});
  write({});
  expect_error<DataError>([&] { NpzFile(folder / "b.npz"); }, {"empty"});
  for (uint64_t trial = 0; trial < 500; ++trial) {  // must not crash
    std::vector<std::byte> file = good;
    for (uint64_t c = 0; c < 3; ++c)
      file[file.size() - 1 - keyed(trial, c) % 300] = static_cast<std::byte>(keyed(trial, c, 1));
    write(file);
    try {
      static_cast<void>(NpzFile(folder / "b.npz").read("x"));
    } catch (const DataError&) {
    }
  }
}

TEST(Npz, DecompressesNoMoreThanTheHeaderDeclares) {
  const testing::TempDir folder;
  std::vector<std::byte> longer = to_npy(std::vector<float>(10), {10});
  longer.resize(size_t{8} << 20);
  write_npz(folder / "a.npz", {{"x", longer}});
  std::fstream file(folder / "a.npz", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(7 << 20);
  file.put('\1');  // decompressing it to the end would report a wrong CRC instead
  file.close();
  expect_error<DataError>([&] { NpzFile(folder / "a.npz").read("x"); },
                          {"its array x", "declares float32 [10] (40 bytes)", "more"});
}

}  // namespace
}  // namespace dtrain::formats
