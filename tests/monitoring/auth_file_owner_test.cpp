// A binary of its own: only root can give a file away, so without root it is skipped.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "monitoring/auth_file.h"
#include "monitoring/basic_auth.h"
#include "support/expect_error.h"

namespace dtrain::monitoring {
namespace {

using dtrain::testing::expect_error;
using dtrain::testing::TempDir;
using testing::auth_file;

TEST(BasicAuth, AFileOfAnotherUserMayBeReadByAGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root";
  const TempDir folder;
  // as Kubernetes mounts a Secret, but that root may read it as the owner may
  const auto with_mode = [&](mode_t mode) {
    const std::filesystem::path file = auth_file(folder, "u:p\n");
    EXPECT_EQ(::chown(file.c_str(), 12345, 12345), 0);
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return file;
  };
  for (const mode_t mode : {0440, 0640, 0400}) EXPECT_NO_THROW(BasicAuth{with_mode(mode)}) << mode;
  for (const mode_t mode : {0444, 0604, 0460, 0450, 0644}) {
    const std::filesystem::path file = with_mode(mode);
    expect_error<ConfigError>([&] { BasicAuth{file}; },
                              {file.string(), "has mode 0", "mode 0440", "defaultMode: 0400"});
  }
}

}  // namespace
}  // namespace dtrain::monitoring
