#include "core/hash.h"

#include <openssl/evp.h>

#define XXH_STATIC_LINKING_ONLY  // the size of XXH64_state_t
#include <xxhash.h>

#include <array>
#include <fstream>
#include <memory>
#include <vector>

#include "core/check.h"
#include "text/number_text.h"

namespace dtrain {
namespace {

class Sha256 {
 public:
  Sha256() {
    DTRAIN_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void update(const void* data, size_t size) {
    DTRAIN_CHECK(EVP_DigestUpdate(context_.get(), data, size) == 1);
  }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    DTRAIN_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
    return dtrain::hex(std::as_bytes(std::span(digest)));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free};
};

}  // namespace

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

struct RunningHash::State {
  XXH64_state_t xxh64;
};

RunningHash::RunningHash(uint64_t seed) : state_(std::make_unique<State>()) {
  XXH64_reset(&state_->xxh64, seed);
}
RunningHash::~RunningHash() = default;
RunningHash::RunningHash(RunningHash&&) noexcept = default;
RunningHash& RunningHash::operator=(RunningHash&&) noexcept = default;

void RunningHash::add(std::span<const std::byte> bytes) {
  XXH64_update(&state_->xxh64, bytes.data(), bytes.size());
}

uint64_t RunningHash::value() const { return XXH64_digest(&state_->xxh64); }

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256_hex_of_file(const std::filesystem::path& path,
                               const std::function<void(int64_t)>& read) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(str("cannot read ", path.string()));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(buffer.data(), static_cast<size_t>(in.gcount()));
    if (read) read(static_cast<int64_t>(in.gcount()));
  }
  if (in.bad()) throw Error(str("cannot read ", path.string()));
  return hash.hex();
}

}  // namespace dtrain
