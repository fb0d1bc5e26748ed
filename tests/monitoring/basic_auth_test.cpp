#include "monitoring/basic_auth.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "monitoring/auth_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::monitoring {
namespace {

using dtrain::testing::expect_error;
using dtrain::testing::TempDir;
using testing::auth_file;

TEST(BasicAuth, AcceptsItsUserAndPasswordAlone) {
  const TempDir folder;
  // The example of RFC 7617.
  const BasicAuth auth(auth_file(folder, "Aladdin:open sesame\n"));
  EXPECT_TRUE(auth.accepts("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
  EXPECT_TRUE(auth.accepts("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="))
      << "the case of the scheme does not matter";
  for (const char* wrong :
       {"", "Basic", "Basic ",
        "QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ===",
        "Basic qWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZg=="}) {
    EXPECT_FALSE(auth.accepts(wrong)) << wrong;
  }
}

TEST(BasicAuth, APasswordMayHaveColonsAndAnyLength) {
  const TempDir folder;
  EXPECT_TRUE(BasicAuth(auth_file(folder, "u:a:b")).accepts("Basic dTphOmI="));
  EXPECT_TRUE(BasicAuth(auth_file(folder, "u:ab\n")).accepts("Basic dTphYg=="));
  EXPECT_TRUE(BasicAuth(auth_file(folder, "u:a")).accepts("Basic dTph"));
}

TEST(BasicAuth, TheFileIsItsOwnersAlone) {
  const TempDir folder;
  for (const mode_t mode : {0640, 0604, 0620, 0644, 0601, 0777}) {
    const auto file = auth_file(folder, "u:p\n", mode);
    expect_error<ConfigError>([&] { BasicAuth{file}; }, {file.string(), "has mode 0", "chmod 600"});
  }
  for (const mode_t mode : {0600, 0400})
    EXPECT_NO_THROW(BasicAuth{auth_file(folder, "u:p\n", mode)});
}

TEST(BasicAuth, AFileThatCannotBeReadIsNamed) {
  const TempDir folder;
  expect_error<ConfigError>([&] { BasicAuth{folder / "gone"}; },
                            {"metrics.auth_file: ", (folder / "gone").string(), "No such file"});
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  expect_error<ConfigError>([&] { BasicAuth{folder.path()}; },
                            {folder.path().string(), "is not a regular file"});
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error<ConfigError>([&] { BasicAuth{pipe}; }, {pipe.string(), "is not a regular file"});
}

TEST(BasicAuth, TheFileIsOneLineOfUserAndPassword) {
  const TempDir folder;
  for (const std::string& content :
       {std::string(), std::string("\n"), std::string("user"), std::string(":password"),
        std::string("user:"), std::string("user:password\nsecond:line\n"),
        std::string("user:password\r\n"), std::string("user:pass\0word", 14),
        "u:" + std::string(2000, 'p')}) {
    const auto file = auth_file(folder, content);
    expect_error<ConfigError>([&] { BasicAuth{file}; },
                              {file.string(), "must hold one line USER:PASSWORD"});
  }
}

}  // namespace
}  // namespace dtrain::monitoring
