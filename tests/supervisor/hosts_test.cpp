#include "supervisor/hosts.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "os/net_address.h"
#include "support/expect_error.h"

namespace dtrain::supervisor {
namespace {

using dtrain::testing::expect_error;

TEST(Hosts, AreReadFromAHostFileOfMpirun) {
  const std::vector<Host> hosts =
      parse_hosts("# two nodes\na slots=4 # four GPUs\n\n\tb\tslots=2\r\nc\na slots=1\n", "f");
  EXPECT_EQ(hosts, (std::vector<Host>{{"a", 5}, {"b", 2}, {"c", 1}}));
  EXPECT_EQ(slots_of(hosts), 8);
}

TEST(Hosts, AFaultInTheFileIsNamedWithItsLine) {
  expect_error<UsageError>([] { parse_hosts("a slots=4\nb slots=four\n", "my_hosts"); },
                           {"my_hosts:2", "'slots=four'"});
  expect_error<UsageError>([] { parse_hosts("a slots=0", "f"); }, {"f:1", "slots=0"});
  expect_error<UsageError>([] { parse_hosts("a max-slots=4", "f"); },
                           {"f:1", "max-slots=4", "slots=N"});
  expect_error<UsageError>([] { parse_hosts("# none\n\n", "f"); }, {"f", "no host"});
  expect_error<UsageError>([] { parse_hosts("a\n::1 slots=2", "f"); },
                           {"f:2", "'::1'", "use a name"});
  for (const char* name : {"-oProxyCommand=x", "a:2", "a;b", "@a", "a@", "$HOME", "a@-b"}) {
    expect_error<UsageError>([&] { parse_hosts(name, "f"); },
                             {"f:1", name, "is no host name", "NAME slots=N"});
  }
  EXPECT_EQ(parse_hosts("me@node-1.example_2.org", "f")[0].name, "me@node-1.example_2.org");
}

TEST(Hosts, RanksArePlacedInTheirOrder) {
  const std::vector<Host> hosts = {{"a", 2}, {"b", 4}, {"c", 1}};
  EXPECT_EQ(host_list(hosts, 7), "a:2,b:4,c:1");
  EXPECT_EQ(host_list(hosts, 5), "a:2,b:3");
  EXPECT_EQ(host_list(hosts, 2), "a:2");
  EXPECT_EQ(host_list(hosts, 1), "a:1");
  EXPECT_EQ(used_hosts(hosts, 2), (std::vector<Host>{{"a", 2}}));
  EXPECT_EQ(used_hosts(hosts, 3), (std::vector<Host>{{"a", 2}, {"b", 4}}));
}

TEST(Hosts, ThisMachineIsKnownByItsNameAndByItsAddresses) {
  EXPECT_TRUE(is_this_host(host_name()));
  EXPECT_TRUE(is_this_host("localhost"));
  EXPECT_TRUE(is_this_host("me@" + host_name()));
  EXPECT_TRUE(is_this_host("me@localhost"));
  EXPECT_TRUE(is_this_host("127.0.0.1"));
  EXPECT_TRUE(is_this_host("127.0.1.1"))
      << "Debian gives it to the name of a machine without an address";
  EXPECT_FALSE(is_this_host("203.0.113.1")) << "an address for documentation";
  EXPECT_FALSE(is_this_host("no-such-host.invalid"));
}

TEST(Hosts, ThisMachineGoesFirstAndTheOthersKeepTheirOrder) {
  std::vector<Host> hosts = {
      {"203.0.113.1", 1}, {"203.0.113.2", 2}, {"localhost", 3}, {"203.0.113.3", 4}};
  put_this_host_first(hosts);
  EXPECT_EQ(hosts,
            (std::vector<Host>{
                {"localhost", 3}, {"203.0.113.1", 1}, {"203.0.113.2", 2}, {"203.0.113.3", 4}}));
  std::vector<Host> others = {{"203.0.113.2", 1}, {"203.0.113.1", 1}};
  put_this_host_first(others);
  EXPECT_EQ(others[0].name, "203.0.113.2");
}

}  // namespace
}  // namespace dtrain::supervisor
