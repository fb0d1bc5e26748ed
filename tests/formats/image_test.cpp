#include "formats/image.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::formats {
namespace {

Image gradient(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.at(x, y)[0] = static_cast<uint8_t>(255 * x / width);
      image.at(x, y)[1] = static_cast<uint8_t>(255 * y / height);
      image.at(x, y)[2] = 77;
    }
  }
  return image;
}

int largest_difference(const Image& a, const Image& b) {
  int largest = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i)
    largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
  return largest;
}

TEST(Image, PngKeepsEveryBit) {
  const Image image = gradient(37, 21);
  const Image back = decode_image(encode_png(image));
  EXPECT_EQ(back.width, 37);
  EXPECT_EQ(back.height, 21);
  EXPECT_EQ(back.rgb, image.rgb);
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// As Pillow, OpenCV and torchvision decode them.
TEST(Image, ColorManagementOfAPngDoesNotChangePixels) {
  constexpr std::pair<const char*, std::string_view> kChunks[] = {
      {"gAMA of 1", "0000000467414d41000186a031e8965f"},
      {"sRGB", "000000017352474200aece1ce9"},
      {"cHRM with red and blue exchanged",
       "000000206348524d00007a26000080840000fa00000080e8000075300000ea6000003a98000017709cba513c"},
      {"cICP of BT.2020", "0000000463494350091000014d2323fe"},
      {"sBIT of 5, 6 and 5", "0000000373424954050605330b8d80"},
      {"iCCP with a damaged profile", "0000000f69434350700000789caba8181e0000d0c45dc1cba19148"}};
  constexpr std::ptrdiff_t kAfterTheHeader = 33;
  const Image image = gradient(37, 21);
  for (const auto& [name, hex] : kChunks) {
    const std::vector<std::byte> chunk = from_hex(hex);
    std::vector<std::byte> png = encode_png(image);
    png.insert(png.begin() + kAfterTheHeader, chunk.begin(), chunk.end());
    EXPECT_EQ(decode_image(png).rgb, image.rgb) << name;
  }
}

// 3 x 3 pixels; the red value of column x is 257 * 100 x, the green value of row y is 257 * 100 y
// + 100.
TEST(Image, ReadsAnInterlacedPngOf16Bits) {
  const Image image =
      decode_image(from_hex("89504e470d0a1a0a0000000d4948445200000003000000031002000001feddce3d0000"
                            "002e4944415478da1dca411100300c02c1"
                            "13542bb840ecd5559b7c968101a009ba01f7243ad2eed66efb3f9376d4f10116681402"
                            "2d9d0eb60000000049454e44ae426082"));
  ASSERT_EQ(image.rgb.size(), 27u);
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 3; ++x) {
      const uint8_t* pixel = image.at(x, y);
      EXPECT_EQ(std::vector<int>(pixel, pixel + 3), (std::vector<int>{100 * x, 100 * y, 77}))
          << x << ' ' << y;
    }
  }
}

TEST(Image, APngCutAnywhereIsDamaged) {
  const std::vector<std::byte> whole = encode_png(gradient(64, 48));
  constexpr size_t kSignature = 8, kEnd = 12;  // the last chunk, IEND, has no pixels
  for (size_t bytes = kSignature; bytes + kEnd + 4 < whole.size(); bytes += 7) {
    const std::vector<std::byte> part(whole.begin(),
                                      whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    testing::expect_error<DataError>([&] { decode_image(part); },
                                     {"damaged PNG: premature end of the file"});
  }
}

TEST(Image, JpegKeepsColorsAndOrientation) {
  const Image image = gradient(64, 48);
  const Image back = decode_image(encode_jpeg(image));
  ASSERT_EQ(back.width, 64);
  ASSERT_EQ(back.height, 48);
  EXPECT_LT(largest_difference(image, back), 16);
}

TEST(Image, DamageIsNamed) {
  std::vector<std::byte> jpeg = encode_jpeg(gradient(256, 192)), png = encode_png(gradient(64, 48));
  jpeg.resize(jpeg.size() - 100);
  png.resize(png.size() / 2);
  testing::expect_error<DataError>([&] { decode_image(jpeg); }, {"damaged JPEG", "remature end"});
  testing::expect_error<DataError>([&] { decode_image(png); }, {"damaged PNG"});
  testing::expect_error<DataError>([&] { decode_image({}); }, {"empty"});
  testing::expect_error<DataError>([&] { decode_image(std::vector<std::byte>(100)); },
                                   {"not a JPEG, PNG or WebP"});
  testing::expect_error<DataError>([&] { read_image("/no/such/picture.jpg"); }, {"No such file"});
  jpeg.resize(3);
  testing::expect_error<DataError>([&] { decode_image(jpeg); }, {"damaged"});
}

std::vector<std::byte> with_stray_bytes(std::vector<std::byte> jpeg, size_t at) {
  jpeg.insert(jpeg.begin() + static_cast<std::ptrdiff_t>(at),
              {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}});
  return jpeg;
}

// 16 x 16 gray pixels in six scans.
std::vector<std::byte> progressive_jpeg() {
  constexpr std::string_view kHex =
      "ffd8ffdb0043001b12141714111b1716171e1c1b2028422b28252528513a3d3042605565645f555d5b6a7899816a"
      "7190735b5d85"
      "b586909ea3abadab6780bcc9baa6c799a8aba4ffc2000b080010001001011100ffc4001500010100000000000000"
      "000000000000"
      "000100ffda000801010000000124ffc40017100003010000000000000000000000000000011041ffda0008010100"
      "010502534fff"
      "c40017100003010000000000000000000000000000011011ffda0008010100063f02b8cfffc4001e100000060301"
      "010000000000"
      "00000000000001112141f03151617181ffda0008010100013f2129708a4b17e86448f2a8833aee0211b1ccdba1ff"
      "da0008010100"
      "000010dfffc4001d100101010002020300000000000000000001112100413151617191ffda0008010100013f10ce"
      "40e4211844a6"
      "3475db9c548c4010c29d4915ac839cb089394a4c2b69f6b773c608a7e0e69aae1ec8e7e5673fffd9";
  return from_hex(kHex);
}
constexpr size_t kAfterTheFirstScan = 118, kInTheLastScan = 320;

TEST(Image, StrayBytesInAJpegDoNotChangePixels) {
  const std::vector<std::byte> jpeg = encode_jpeg(gradient(64, 48));
  const size_t after_jfif = 4 + std::to_integer<size_t>(jpeg[5]);
  EXPECT_EQ(decode_image(with_stray_bytes(jpeg, after_jfif)).rgb, decode_image(jpeg).rgb);
  EXPECT_EQ(decode_image(with_stray_bytes(progressive_jpeg(), kAfterTheFirstScan)).rgb,
            decode_image(progressive_jpeg()).rgb);
}

TEST(Image, StrayBytesInAJpegDoNotHideDamage) {
  std::vector<std::byte> jpeg = with_stray_bytes(encode_jpeg(gradient(256, 192)), 20);
  jpeg.resize(jpeg.size() - 100);
  testing::expect_error<DataError>([&] { decode_image(jpeg); }, {"damaged JPEG", "remature end"});
  std::vector<std::byte> scans = with_stray_bytes(progressive_jpeg(), kAfterTheFirstScan);
  scans.resize(kInTheLastScan);
  testing::expect_error<DataError>([&] { decode_image(scans); }, {"damaged JPEG", "remature end"});
}

using Values = std::vector<int>;  // of bytes

std::vector<std::byte> with(std::vector<std::byte> file, size_t at, const Values& values) {
  for (const int value : values) file.at(at++) = static_cast<std::byte>(value);
  return file;
}

// Where a marker such as 0xda begins.
size_t marker_at(const std::vector<std::byte>& jpeg, int marker) {
  for (size_t at = 2; at + 1 < jpeg.size(); ++at) {
    if (jpeg[at] == std::byte{0xff} && jpeg[at + 1] == static_cast<std::byte>(marker)) return at;
  }
  throw Error("no such marker");
}

size_t scan_parameters_of(const std::vector<std::byte>& jpeg) {
  const size_t scan = marker_at(jpeg, 0xda);
  return scan + 5 + 2 * std::to_integer<size_t>(jpeg[scan + 4]);
}

// Files that libjpeg wrote: 8 x 8 gray pixels with arithmetic coding; 40 x 8 gray pixels with a
// restart marker after each of the five blocks; 8 x 8 pixels of YCCK with Adobe's marker.
constexpr std::string_view kArithmeticJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb00430050373c463c32504641465a55505f78c882786e6e78f5"
    "afb991c8ffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffc9000b080008000801011100"
    "ffcc000600101005"
    "ffda0008010100003f00fdc8ffd9";
constexpr std::string_view kJpegWithRestarts =
    "ffd8ffe000104a46494600010100000100010000ffdb00430050373c463c32504641465a55505f78c882786e6e78f5"
    "afb991c8ffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffc0000b080008002801011100"
    "ffc4001600010101"
    "00000000000000000000000000020403ffc40014100100000000000000000000000000000000ffdd00040001ffda00"
    "08010100003f008d"
    "ffd099ffd1c9ffd22fffd34fffd9";
constexpr std::string_view kYcckJpeg =
    "ffd8ffee000e41646f626500640000000002ffdb00430050373c463c32504641465a55505f78c882786e6e78f5afb9"
    "91c8ffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffdb004301555a5a786978eb8282eb"
    "ffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "c000140800080008"
    "04012200021101031101042200ffc4001500010100000000000000000000000000000004ffc4001410010000000000"
    "0000000000000000"
    "000000ffc40014010100000000000000000000000000000002ffc40014110100000000000000000000000000000000"
    "ffda000e04010002"
    "1103110400003f00a4002007ffd9";

// JWRN_NOT_SEQUENTIAL, JWRN_JFIF_MAJOR and JWRN_ADOBE_XFORM; JWRN_EXTRANEOUS_DATA is tested above.
// Pillow and OpenCV decode these files to the same pixels as the unchanged ones, too.
TEST(Image, WarningsOfLibjpegThatLoseNoPixelAreAccepted) {
  const std::vector<std::byte> jpeg = encode_jpeg(gradient(64, 48)),
                               arithmetic = from_hex(kArithmeticJpeg);
  const Image image = decode_image(jpeg);
  // First and last coefficient, bit positions. The parameters of a sequential scan are 0, 63, 0.
  for (const Values& parameters :
       {Values{0, 0, 0}, {1, 63, 0}, {0, 5, 0}, {0, 63, 1}, {0, 63, 0x10}}) {
    EXPECT_EQ(decode_image(with(jpeg, scan_parameters_of(jpeg), parameters)).rgb, image.rgb);
    EXPECT_EQ(decode_image(with(arithmetic, scan_parameters_of(arithmetic), parameters)).rgb,
              decode_image(arithmetic).rgb);
  }
  constexpr size_t kJfifVersion = 11;
  for (const Values& version : {Values{0, 2}, {2, 1}, {255, 255}}) {
    EXPECT_EQ(decode_image(with(jpeg, kJfifVersion, version)).rgb, image.rgb);
  }
  const std::vector<std::byte> adobe = from_hex("ffd8ffee000e41646f626500640000000001"),
                               ycck = from_hex(kYcckJpeg);
  constexpr size_t kTransform = 17, kAfterJfif = 20;
  std::vector<std::byte> ycc = adobe;
  ycc.insert(ycc.end(), jpeg.begin() + kAfterJfif, jpeg.end());
  EXPECT_NE(decode_image(with(ycc, kTransform, {0})).rgb, image.rgb);  // RGB
  EXPECT_NE(decode_image(with(ycck, kTransform, {0})).rgb, decode_image(ycck).rgb);
  for (const int unknown : {7, 255}) {
    EXPECT_EQ(decode_image(with(ycc, kTransform, {unknown})).rgb, image.rgb);
    EXPECT_EQ(decode_image(with(ycck, kTransform, {unknown})).rgb, decode_image(ycck).rgb);
  }
}

// All other warnings, with which Pillow and OpenCV give wrong pixels or refuse the file. No file
// causes JWRN_TOO_MUCH_DATA and JWRN_BOGUS_ICC, which are about calls that decode_jpeg() does
// not make.
TEST(Image, WarningsOfLibjpegThatLosePixelsAreDamage) {
  const auto refused = [](std::vector<std::byte> jpeg, const char* part) {
    testing::expect_error<DataError>([&] { decode_image(jpeg); }, {"damaged JPEG: ", part});
  };
  const std::vector<std::byte> jpeg = encode_jpeg(gradient(64, 48)),
                               arithmetic = from_hex(kArithmeticJpeg);
  const size_t data = scan_parameters_of(jpeg) + 3;
  // JWRN_HUFF_BAD_CODE
  refused(with(jpeg, data, {0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0}), "bad Huffman code");
  std::vector<std::byte> changed = arithmetic;
  const std::vector<std::byte> ones = from_hex("ff00ff00ff00ff00");
  changed.insert(changed.end() - 4, ones.begin(), ones.end());
  refused(changed, "bad arithmetic code");  // JWRN_ARITH_BAD_CODE
  refused(with(jpeg, data + 40, {0xff, 0xd9}), "premature end of data segment");  // JWRN_HIT_MARKER
  refused({jpeg.begin(), jpeg.end() - 2}, "Premature end of JPEG file");          // JWRN_JPEG_EOF
  const std::vector<std::byte> restarts = from_hex(kJpegWithRestarts);
  for (const int other : {0xd1, 0xd2, 0xd4, 0xd7}) {
    // JWRN_MUST_RESYNC
    refused(with(restarts, marker_at(restarts, 0xd0), {0xff, other}), "instead of RST0");
  }
  std::vector<std::byte> scans = progressive_jpeg();
  const auto first = static_cast<std::ptrdiff_t>(marker_at(scans, 0xc4));
  scans.erase(scans.begin() + first, scans.begin() + kAfterTheFirstScan);
  refused(scans, "Inconsistent progression sequence");  // JWRN_BOGUS_PROGRESSION
}

// Files that Pillow wrote of the 6 x 4 pixels of webp_pixels().
constexpr std::string_view kLosslessWebp =
    "524946462e000000574542505650384c220000002f05c00000b98ce87fec0a11d1ff8042b611a0033b7fb11f61502e"
    "fe1f1300919203";
constexpr std::string_view kLossyWebp =
    "524946465e0000005745425056503820520000003003009d012a0600040001402625b002746f805c807ea07b007e80"
    "658002cdacbc2c00"
    "feed219c8d8910ae697ffb5f900289e2cccd6a4c86a7deb6244bfffb5e984e5c0dbfd775b2e53151f4ff3337cc000"
    "0";
constexpr std::string_view
    kWebpWithAlphaAndExif =  // alpha is 11 times the index of the pixel, the orientation is 6
    "524946466a00000057454250565038580a000000180000000500000300005650384c290000002f05c00010b98ce87f"
    "ec0a11d1ff8042b6"
    "11a0033b7fb11f61502efe2f264d43ecb6951300a1947c0000455849461a0000004d4d002a00000008000101120003"
    "0000000100060000"
    "00000000";
constexpr std::string_view kAnimatedWebp =
    "52494646d800000057454250565038580a00000002000000050000030000414e494d06000000000000000000414e4d"
    "4652000000000000"
    "000000050000030000000000025650384c3a0000002f05c00000bf40906d33b022dc9fe90883221048f2c75ce4f92f"
    "420e009be700856d"
    "1ba9a9e37b6688e87f8084320e6aacf392a5b61e7beefb03414e4d4652000000000000000000050000030000000000"
    "005650384c3a0000"
    "002f05c00000bf40906d33b022dc9fe90883221048f2c75ce4f92f420e009be700856d1ba9a9e37b6688e87fb0e7be"
    "3f596aeba1c63a2f"
    "4828e300";

Image webp_pixels() {
  Image image(6, 4);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 6; ++x) {
      const int rgb[] = {40 * x, 60 * y, 255 - 30 * x};
      std::copy(std::begin(rgb), std::end(rgb), image.at(x, y));
    }
  }
  return image;
}

TEST(Image, ReadsWebp) {
  const Image lossless = decode_image(from_hex(kLosslessWebp));
  EXPECT_EQ(lossless.width, 6);
  EXPECT_EQ(lossless.height, 4);
  EXPECT_EQ(lossless.rgb, webp_pixels().rgb);
  EXPECT_LT(largest_difference(decode_image(from_hex(kLossyWebp)), webp_pixels()), 60);
}

TEST(Image, PutsTransparentWebpAndPngOverAGrayLevel) {
  const Image expected = webp_pixels();
  for (const int behind : {0, 255}) {
    const Image image = decode_image(from_hex(kWebpWithAlphaAndExif), static_cast<uint8_t>(behind));
    for (int i = 0; i < 24; ++i) {
      const double alpha = 11 * i / 255.0;
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(image.rgb[3 * i + c], alpha * expected.rgb[3 * i + c] + (1 - alpha) * behind,
                    0.51)
            << i;
      }
    }
  }
  EXPECT_EQ(exif_orientation(from_hex(kWebpWithAlphaAndExif)), 6);
  EXPECT_EQ(exif_orientation(from_hex(kLosslessWebp)), 1);
  const std::vector<uint8_t> two{200, 100, 0, 128, 200, 100, 0, 0};
  EXPECT_EQ(over(255, two, 2, 1).rgb, (std::vector<uint8_t>{227, 177, 127, 255, 255, 255}));
}

TEST(Image, DamageOfWebpIsNamed) {
  const auto refused = [](std::vector<std::byte> bytes, const char* part) {
    testing::expect_error<DataError>([&] { decode_image(bytes); }, {part});
  };
  for (const std::string_view hex : {kLosslessWebp, kLossyWebp, kWebpWithAlphaAndExif}) {
    const std::vector<std::byte> whole = from_hex(hex);
    for (size_t bytes = 12; bytes < 50; ++bytes) {
      refused({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)},
              bytes < 20 ? "damaged WebP: premature end" : "damaged WebP: ");
    }
    // No crash, no orientation
    EXPECT_EQ(exif_orientation(std::span(whole).first(whole.size() - 1)), 1);
  }
  refused(from_hex(kAnimatedWebp), "an animated WebP; only still pictures can be read");
  std::vector<std::byte> wrong = from_hex(kLosslessWebp);
  wrong[20] = std::byte{0};  // the signature of a lossless bit stream
  refused(wrong, "damaged WebP: its data is not valid");
  wrong[8] = std::byte{'A'};
  refused(wrong, "not a JPEG, PNG or WebP");
}

TEST(Image, AnImplausiblyLargeFileIsNotRead) {
  const testing::TempDir folder;
  std::ofstream(folder / "a.png");
  std::filesystem::resize_file(folder / "a.png", uintmax_t{1} << 40);  // a sparse file
  testing::expect_error<DataError>([&] { read_image(folder / "a.png"); }, {"1.0 TiB", "at most"});
}

TEST(Resample, TheWholePictureAtItsOwnSizeIsUnchanged) {
  const Image image = gradient(20, 12);
  EXPECT_EQ(resample(image, {0, 0, 20, 12}, 20, 12).rgb, image.rgb);
}

TEST(Resample, CropsAtWholePixels) {
  const Image image = gradient(20, 12);
  const Image part = resample(image, {5, 2, 9, 8}, 4, 6);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 4; ++x) EXPECT_EQ(part.at(x, y)[0], image.at(x + 5, y + 2)[0]);
  }
}

TEST(Resample, DownscalingAveragesAndDoesNotAlias) {
  Image checks(64, 64);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) std::fill_n(checks.at(x, y), 3, (x + y) % 2 ? 255 : 0);
  }
  const Image small = resample(checks, {0, 0, 64, 64}, 16, 16);
  for (int y = 0; y < 16; ++y) {  // at the border, repeated pixels outside have more weight
    for (int x = 0; x < 16; ++x) {
      const bool border = x == 0 || y == 0 || x == 15 || y == 15;
      EXPECT_NEAR(small.at(x, y)[0], 127.5, border ? 5 : 1) << x << ' ' << y;
    }
  }
}

TEST(Resample, UpscalingIsLinear) {
  Image two(2, 1);
  std::fill_n(two.at(0, 0), 3, 0);
  std::fill_n(two.at(1, 0), 3, 200);
  const Image wide = resample(two, {0, 0, 2, 1}, 4, 1);
  const int expected[] = {0, 50, 150, 200};  // centers at 0.25, 0.75, 1.25, 1.75
  for (int x = 0; x < 4; ++x) EXPECT_EQ(wide.at(x, 0)[1], expected[x]);
}

TEST(Resample, RepeatsTheBorderOutside) {
  const Image image = gradient(10, 10);
  const Image around = resample(image, {-10, -10, 20, 20}, 30, 30);
  EXPECT_EQ(around.at(0, 15)[0], image.at(0, 5)[0]);
  EXPECT_EQ(around.at(29, 15)[0], image.at(9, 5)[0]);
  EXPECT_EQ(around.at(15, 29)[1], image.at(5, 9)[1]);
  EXPECT_EQ(around.at(15, 15)[0], image.at(5, 5)[0]);
}

TEST(Image, MirroredTwiceIsTheSame) {
  const Image image = gradient(9, 5);
  EXPECT_NE(mirrored(image).rgb, image.rgb);
  EXPECT_EQ(mirrored(image).at(0, 2)[0], image.at(8, 2)[0]);
  EXPECT_EQ(mirrored(mirrored(image)).rgb, image.rgb);
}

// A TIFF file whose first directory has one entry, the orientation, of any type.
std::string tiff_with(uint32_t type, uint32_t value, int value_bytes, bool big_endian) {
  const auto number = [&](uint32_t of, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i)
      text += static_cast<char>(of >> 8 * (big_endian ? bytes - 1 - i : i));
    return text;
  };
  const std::string stored = (number(value, value_bytes) + std::string(4, '\0')).substr(0, 4);
  return (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(1, 2) +
         number(0x0112, 2) + number(type, 2) + number(1, 4) + stored + number(0, 4);
}

TEST(Exif, OrientationOfEveryIntegerTypeInEveryFormat) {
  using namespace std::string_literals;
  const auto orientation = [](const std::string& file) {
    return exif_orientation(std::as_bytes(std::span(file)));
  };
  constexpr uint32_t kByte = 1, kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9,
                     kFloat = 11;
  constexpr std::pair<uint32_t, int> kTypes[] = {
      {kShort, 2}, {kLong, 4}, {kSignedShort, 2}, {kSignedLong, 4}};
  for (const bool big_endian : {false, true}) {
    const auto expect = [&](uint32_t type, int bytes, uint32_t value, int expected) {
      const std::string tiff = tiff_with(type, value, bytes, big_endian);
      const auto size = static_cast<char>(tiff.size());
      const std::string jpeg =
          "\xff\xd8\xff\xe1\0"s + static_cast<char>(size + 8) + "Exif\0\0"s + tiff;
      const std::string png = "\x89PNG\r\n\x1a\n\0\0\0"s + size + "eXIf" + tiff + "\0\0\0\0"s;
      const std::string webp = "RIFF\0\0\0\0WEBPEXIF"s + size + "\0\0\0"s + tiff;
      std::string stray = jpeg;
      stray.insert(2, "\1\xff\0\2\3"s);  // decoding skips stray bytes, too
      for (const std::string& file : {jpeg, stray, png, webp}) {
        EXPECT_EQ(orientation(file), expected)
            << "type " << type << ", value " << value << (big_endian ? ", big endian " : " ")
            << file.substr(0, 4);
      }
    };
    for (const auto& [type, bytes] : kTypes) {
      for (int value = 1; value <= 8; ++value)
        expect(type, bytes, static_cast<uint32_t>(value), value);
      expect(type, bytes, 9, 1);
    }
    expect(kLong, 4, 0x10006, 1);
    expect(kByte, 1, 6, 1);  // no such value for Pillow
    expect(kFloat, 4, 6, 1);
  }
}

TEST(Exif, UprightUndoesEveryOrientation) {
  Image image(3, 2);  // 1 2 3 / 4 5 6
  for (int i = 0; i < 6; ++i) std::fill_n(image.rgb.data() + i * 3, 3, static_cast<uint8_t>(i + 1));
  const std::vector<std::vector<int>> expected{
      {1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
      {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image turned = upright(image, orientation);
    EXPECT_EQ(turned.width, orientation < 5 ? 3 : 2);
    for (size_t i = 0; i < 6; ++i)
      EXPECT_EQ(turned.rgb[i * 3], expected[static_cast<size_t>(orientation - 1)][i])
          << orientation << ' ' << i;
  }
}

}  // namespace
}  // namespace dtrain::formats
