#include "fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "core/random.h"

namespace dtrain::testing {
namespace {

class Draws {
 public:
  Draws(uint64_t kind, uint64_t seed, uint64_t number) : key_(keyed(kind, seed, number)) {}
  uint64_t next() { return keyed(key_, ++count_); }
  size_t below(size_t limit) { return static_cast<size_t>(next() % std::max<size_t>(limit, 1)); }

 private:
  uint64_t key_, count_ = 0;
};

template <typename Word>
void put(std::string& bytes, size_t at, Word word) {
  if (at + sizeof word <= bytes.size()) std::memcpy(bytes.data() + at, &word, sizeof word);
}

uint32_t word32(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// Sizes, counts and addresses that programs get wrong.
uint64_t odd_value(const std::string& bytes, Draws& draws) {
  const uint64_t size = bytes.size();
  const std::array values{uint64_t{0},
                          uint64_t{1},
                          uint64_t{2},
                          uint64_t{7},
                          uint64_t{8},
                          uint64_t{0x7f},
                          uint64_t{0xff},
                          uint64_t{0x7fff},
                          uint64_t{0xffff},
                          uint64_t{0x7fffffff},
                          uint64_t{0xffffffff},
                          std::numeric_limits<uint64_t>::max(),
                          uint64_t{1} << 63,
                          uint64_t{1} << 62,
                          size,
                          size - 1,
                          size + 1,
                          size / 2,
                          draws.next() % (size + 1),
                          draws.next()};
  return values[draws.below(values.size())];
}

// Changes something between `at` and the end.
void change(std::string& bytes, size_t at, Draws& draws) {
  if (bytes.empty()) return;
  at = std::min(at, bytes.size() - 1);
  char& byte = bytes[at];
  switch (draws.below(8)) {
    case 0:
      byte = static_cast<char>(byte ^ (1 << draws.below(8)));
      return;
    case 1:
      byte = static_cast<char>(odd_value(bytes, draws));
      return;
    case 2:
      return put(bytes, at, static_cast<uint16_t>(odd_value(bytes, draws)));
    case 3:
      return put(bytes, at, static_cast<uint32_t>(odd_value(bytes, draws)));
    case 4:
      return put(bytes, at, odd_value(bytes, draws));
    case 5: {  // a block from elsewhere
      const size_t count = std::min<size_t>(1 + draws.below(64), bytes.size() - at);
      const std::string block = bytes.substr(draws.below(bytes.size()), count);
      bytes.replace(at, block.size(), block);
      return;
    }
    case 6: {
      const size_t count = std::min<size_t>(1 + draws.below(32), bytes.size() - at);
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count,
                  draws.below(2) == 0 ? '\0' : '\xff');
      return;
    }
    default:  // a number one more or less
      byte = static_cast<char>(byte + (draws.below(2) == 0 ? 1 : -1));
  }
}

void cut_or_extend(std::string& bytes, Draws& draws) {
  if (draws.below(4) != 0) {
    bytes.resize(draws.below(bytes.size()));
  } else {
    bytes.append(1 + draws.below(100), static_cast<char>(draws.next()));
  }
}

// ---- HDF5: "HDF5 File Format Specification Version 2.0" -----------------------------------------
constexpr std::array<std::string_view, 12> kSignatures{"\x89HDF", "OHDR", "OCHK", "TREE",
                                                       "SNOD",    "HEAP", "GCOL", "FRHP",
                                                       "FHDB",    "FHIB", "BTHD", "BTLF"};

std::vector<size_t> structures(const std::string& bytes) {
  std::vector<size_t> found;
  for (const std::string_view signature : kSignatures) {
    for (size_t at = bytes.find(signature); at != std::string::npos;
         at = bytes.find(signature, at + 1)) {
      found.push_back(at);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Bob Jenkins' lookup3 (public domain), hashlittle() on a little-endian machine: the checksum of
// HDF5's metadata.
uint32_t lookup3(std::string_view bytes) {
  uint32_t a = 0xdeadbeef + static_cast<uint32_t>(bytes.size()), b = a, c = a;
  while (bytes.size() > 12) {
    a += word32(bytes, 0), b += word32(bytes, 4), c += word32(bytes, 8);
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
    bytes.remove_prefix(12);
  }
  if (bytes.empty()) return c;
  std::array<char, 12> last{};
  std::copy(bytes.begin(), bytes.end(), last.begin());
  const std::string_view padded(last.data(), last.size());
  a += word32(padded, 0), b += word32(padded, 4), c += word32(padded, 8);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

void seal(std::string& bytes, size_t begin, size_t size) {
  if (size <= bytes.size() && begin + size + 4 <= bytes.size()) {
    put(bytes, begin + size, lookup3(std::string_view(bytes).substr(begin, size)));
  }
}

// Of the superblock (version 2 and 3) and of all first blocks of object headers (version 2).
void correct_checksums(std::string& bytes) {
  if (bytes.size() > 48 && bytes.starts_with("\x89HDF") && (bytes[8] == 2 || bytes[8] == 3))
    seal(bytes, 0, 44);
  for (size_t at = bytes.find("OHDR"); at != std::string::npos; at = bytes.find("OHDR", at + 1)) {
    if (at + 30 > bytes.size()) return;
    const auto flags = static_cast<unsigned char>(bytes[at + 5]);
    size_t size = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    const size_t width = size_t{1} << (flags & 3);
    uint64_t messages = 0;
    std::memcpy(&messages, bytes.data() + at + size,
                std::min<size_t>(width, bytes.size() - at - size));
    size += width + messages;
    if (messages < bytes.size()) seal(bytes, at, size);
  }
}

}  // namespace

std::string flip_bit(std::string bytes, uint64_t seed, uint64_t number) {
  Draws draws(1, seed, number);
  if (!bytes.empty()) {
    char& byte = bytes[draws.below(bytes.size())];
    byte = static_cast<char>(byte ^ (1 << draws.below(8)));
  }
  return bytes;
}

std::string mutate(std::string bytes, uint64_t seed, uint64_t number) {
  Draws draws(2, seed, number);
  for (size_t changes = 1 + draws.below(3); changes > 0; --changes) {
    if (draws.below(12) == 0) {
      cut_or_extend(bytes, draws);
    } else {
      change(bytes, draws.below(bytes.size()), draws);
    }
  }
  return bytes;
}

std::string mutate_hdf5(std::string bytes, uint64_t seed, uint64_t number) {
  Draws draws(3, seed, number);
  const std::vector<size_t> known = structures(bytes);
  for (size_t changes = 1 + draws.below(3); changes > 0; --changes) {
    const size_t structure = known.empty() ? 0 : known[draws.below(known.size())];
    const size_t at = structure + draws.below(draws.below(2) == 0 ? 48 : 400);
    if (draws.below(40) == 0) {
      cut_or_extend(bytes, draws);
    } else if (draws.below(4) == 0 && !known.empty()) {
      // An address of another structure
      put(bytes, at, uint64_t{known[draws.below(known.size())]});
    } else {
      change(bytes, at, draws);
    }
  }
  if (draws.below(2) == 0) correct_checksums(bytes);
  return bytes;
}

}  // namespace dtrain::testing
