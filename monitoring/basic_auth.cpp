#include "monitoring/basic_auth.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "core/error.h"
#include "os/file_descriptor.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

constexpr size_t kLongestLine = 1024;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& problem) {
  throw ConfigError(str("metrics.auth_file: ", file.string(), " ", problem));
}

// As ssh sees its keys: a file of this user is for this user alone. One of another user may be
// readable by a group, because this process must have been put into it: so Kubernetes mounts a
// Secret for a user that is not root.
constexpr mode_t kNotOfOwn = S_IRWXG | S_IRWXO, kNotOfOther = S_IWGRP | S_IXGRP | S_IRWXO;

// The text of a regular file that no others can read, cut where it is certainly too long.
std::string read_private(const std::filesystem::path& file) {
  FileDescriptor fd;
  if (const int code = fd.open(file, O_RDONLY | O_NONBLOCK)) {  // a pipe must not block
    refuse(file, str("cannot be read: ", std::strerror(code)));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) refuse(file, str("cannot be read: ", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) refuse(file, "is not a regular file");
  const bool own = status.st_uid == ::geteuid();
  if ((status.st_mode & (own ? kNotOfOwn : kNotOfOther)) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(status.st_mode & 07777));
    refuse(file,
           own ? str("has mode ", mode.data(),
                     ", and others than its owner must not read a password. Run chmod 600 on it")
               : str("has mode ", mode.data(),
                     ", and others than its owner and its group must not read a password. Give it "
                     "mode 0440 (a Secret of Kubernetes: defaultMode: 0400)"));
  }
  std::string text(std::min(static_cast<size_t>(status.st_size), kLongestLine + 2), '\0');
  if (const int code = fd.read_all(std::as_writable_bytes(std::span(text)))) {
    refuse(file, str("cannot be read: ",
                     code == FileDescriptor::kEndOfFile ? "it changed" : std::strerror(code)));
  }
  return text;
}

std::string base64(std::string_view text) {
  std::string encoded((text.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero byte
  const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  encoded.resize(static_cast<size_t>(size));
  return encoded;
}

}  // namespace

BasicAuth::BasicAuth(const std::filesystem::path& file) {
  std::string line = read_private(file);
  if (line.ends_with('\n')) line.pop_back();
  const size_t colon = line.find(':');
  const bool printable =
      std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (!printable || line.size() > kLongestLine || colon == std::string::npos || colon == 0 ||
      colon + 1 == line.size()) {
    refuse(file, str("must hold one line USER:PASSWORD of at most ", kLongestLine,
                     " bytes, and nothing else"));
  }
  token_ = base64(line);
}

bool BasicAuth::accepts(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Basic ";  // its case does not matter
  if (authorization.size() != kScheme.size() + token_.size() ||
      ::strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0) {
    return false;
  }
  return ::CRYPTO_memcmp(authorization.data() + kScheme.size(), token_.data(), token_.size()) == 0;
}

}  // namespace dtrain::monitoring
