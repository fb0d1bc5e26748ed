#include "dist/peer_packets.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "os/file_descriptor.h"
#include "os/net_address.h"

namespace dtrain::dist {
namespace {

sockaddr* as_address(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

// One that waits for an acknowledgment needs a link that loses packets: tests/hosts/faults_test.py.
TEST(PeerPackets, AConnectionThatIsAcknowledgedSaysNothing) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);  // 127.0.0.9
  socklen_t size = sizeof address;
  EXPECT_EQ(address_text(*as_address(address)), "127.0.0.9");
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0)),
      client(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(listener.get(), as_address(address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), as_address(address), &size), 0);
  ASSERT_EQ(::connect(client.get(), as_address(address), size), 0);
  ASSERT_EQ(::send(client.get(), "x", 1, 0), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(seconds_since_packet({"127.0.0.9", "10.1.2.3"}), std::nullopt);
}

TEST(NetAddress, ThisMachineHasALoopbackAddress) {
  EXPECT_TRUE(own_addresses().contains("127.0.0.1"));
}

}  // namespace
}  // namespace dtrain::dist
