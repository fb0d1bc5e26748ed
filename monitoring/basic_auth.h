#pragma once

// HTTP basic authentication (RFC 7617) with one user name and password, which stand in a private
// file. Over plain HTTP the password crosses the network unencrypted: it keeps out other users of a
// network, not those who listen on it.

#include <filesystem>
#include <string>
#include <string_view>

namespace dtrain::monitoring {

class BasicAuth {
 public:
  // Reads `file`: one line USER:PASSWORD. Throws ConfigError that names the file if it cannot be
  // read, if it holds anything else, or if others have any access to it: the group too where the
  // file is this user's, and where it is not, the group may do more than read.
  explicit BasicAuth(const std::filesystem::path& file);

  // Whether `authorization`, the value of that header, carries the user name and the password. The
  // time that it takes does not depend on where they differ.
  bool accepts(std::string_view authorization) const;

 private:
  std::string token_;  // base64 of USER:PASSWORD
};

}  // namespace dtrain::monitoring
