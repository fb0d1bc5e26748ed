#include "dist/peer_packets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "os/net_address.h"
#include "text/number_text.h"

namespace dtrain::dist {
namespace {

// "" if it is no connected socket.
std::string peer_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  return ::getpeername(descriptor, address, &size) == 0 ? address_text(*address) : "";
}

std::optional<double> seconds_since_packet(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (info.tcpi_unacked == 0) return std::nullopt;
  return 1e-3 * std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
}

}  // namespace

std::optional<double> seconds_since_packet(const std::vector<std::string>& addresses) {
  std::optional<double> least;
  try {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const std::optional<int> descriptor = parse_number<int>(entry.path().filename().string());
      if (!descriptor || std::ranges::find(addresses, peer_of(*descriptor)) == addresses.end())
        continue;
      const std::optional<double> seconds = seconds_since_packet(*descriptor);
      if (seconds) least = std::min(*seconds, least.value_or(*seconds));
    }
  } catch (const std::exception&) {
    // A descriptor was closed meanwhile: what was found so far has to do.
  }
  return least;
}

}  // namespace dtrain::dist
