#include "dist/link_probe.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <map>

#include "core/clock.h"
#include "dist/backoff.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

constexpr int kTag = 3;  // MPI tag in MPI_COMM_WORLD; the handshake uses two others
constexpr int kSmall = 64 << 10, kLarge = 1 << 20;
// seconds: where a small message takes less, its latency counts for too much
constexpr double kQuick = 5e-3;
constexpr int kRepetitions = 3;
constexpr double kSlow = 0.25;  // share of the speed of most links; a link below it is slow
constexpr size_t kMostNamed = 8;

void finish(MPI_Request request) {
  Backoff backoff;
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) backoff.wait();
  }
}

void send(const void* bytes, int count, int to) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(bytes, count, MPI_BYTE, to, kTag, MPI_COMM_WORLD, &request), "MPI_Isend");
  finish(request);
}

void receive(void* bytes, int count, int from) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(bytes, count, MPI_BYTE, from, kTag, MPI_COMM_WORLD, &request), "MPI_Irecv");
  finish(request);
}

// The two ends of a measured direction. Before each message the sender says how long it is, and 0
// ends it.
class Direction {
 public:
  double send_to(int to) {
    double seconds = best_of(kSmall, to);
    int bytes = kSmall;
    if (seconds < kQuick) seconds = best_of(bytes = kLarge, to);
    const int end = 0;
    send(&end, sizeof end, to);
    return bytes / std::max(seconds, 1e-9);
  }

  void receive_from(int from) {
    char mark = 0;
    for (int bytes = 0;;) {
      receive(&bytes, sizeof bytes, from);
      if (bytes == 0) return;
      buffer_.resize(static_cast<size_t>(bytes));
      send(&mark, 1, from);  // ready
      receive(buffer_.data(), bytes, from);
      send(&mark, 1, from);  // all of it is here
    }
  }

 private:
  double best_of(int bytes, int to) {
    buffer_.resize(static_cast<size_t>(bytes));
    double best = 0;
    for (int i = 0; i < kRepetitions; ++i) {
      char mark = 0;
      send(&bytes, sizeof bytes, to);
      receive(&mark, 1, to);
      const auto began = std::chrono::steady_clock::now();
      send(buffer_.data(), bytes, to);
      receive(&mark, 1, to);
      const double seconds = seconds_since(began);
      best = i == 0 ? seconds : std::min(best, seconds);
    }
    return best;
  }

  std::vector<char> buffer_;
};

struct Speeds {
  double to_next = 0, to_previous = 0;
};

Speeds measure(int host, const std::vector<int>& leaders) {
  const int hosts = static_cast<int>(leaders.size());
  const int next = leaders[static_cast<size_t>((host + 1) % hosts)];
  const int previous = leaders[static_cast<size_t>((host + hosts - 1) % hosts)];
  Speeds speeds;
  Direction direction;
  for (const std::vector<int>& round : rounds_of_links(hosts)) {
    for (const int link : round) {
      if (link == host) {
        speeds.to_next = direction.send_to(next);
        direction.receive_from(next);
      } else if ((link + 1) % hosts == host) {
        direction.receive_from(previous);
        speeds.to_previous = direction.send_to(previous);
      }
    }
  }
  return speeds;
}

// The lowest rank of each host, on all ranks.
std::vector<int> leaders_of(const World& world) {
  std::vector<int> hosts(static_cast<size_t>(world.size));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Iallgather(&world.host, 1, MPI_INT, hosts.data(), 1, MPI_INT, MPI_COMM_WORLD, &request),
      "MPI_Iallgather");
  finish(request);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

std::string speed_text(double bytes_per_second) { return human_bytes(bytes_per_second) + "/s"; }

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

}  // namespace

std::vector<std::vector<int>> rounds_of_links(int hosts) {
  if (hosts < 2) return {};
  if (hosts == 2) return {{0}};  // its two links are the same
  std::vector<std::vector<int>> rounds(hosts % 2 == 0 ? 2 : 3);
  for (int link = 0; link < hosts; ++link) {
    const bool closes_odd_ring = link == hosts - 1 && hosts % 2 == 1;
    rounds[closes_odd_ring ? 2 : static_cast<size_t>(link % 2)].push_back(link);
  }
  return rounds;
}

std::vector<LinkSpeed> probe_links(const World& world) {
  if (!world.several_hosts()) return {};
  const std::vector<int> leaders = leaders_of(world);
  const auto own = std::find(leaders.begin(), leaders.end(), world.rank);
  const Speeds mine =
      own == leaders.end() ? Speeds{} : measure(static_cast<int>(own - leaders.begin()), leaders);
  std::vector<Speeds> all(world.rank == 0 ? static_cast<size_t>(world.size) : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Igather(&mine, 2, MPI_DOUBLE, all.data(), 2, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request),
      "MPI_Igather");
  finish(request);
  std::vector<LinkSpeed> links;
  if (world.rank != 0) return links;
  for (size_t i = 0; i < leaders.size(); ++i) {
    const Speeds& speeds = all[static_cast<size_t>(leaders[i])];
    const int next = leaders[(i + 1) % leaders.size()],
              previous = leaders[(i + leaders.size() - 1) % leaders.size()];
    if (speeds.to_next > 0) links.push_back({leaders[i], next, speeds.to_next});
    if (speeds.to_previous > 0) links.push_back({leaders[i], previous, speeds.to_previous});
  }
  return links;
}

std::string describe_slow_links(std::span<const LinkSpeed> links,
                                std::span<const std::string> nodes) {
  if (links.empty()) return "";
  const auto name = [&](int host) { return nodes[static_cast<size_t>(host)]; };
  std::vector<double> speeds;
  for (const LinkSpeed& link : links) speeds.push_back(link.bytes_per_second);
  std::sort(speeds.begin(), speeds.end());
  // Not the median: one slow host of three or four makes half of the links slow, or more.
  const double usual = speeds[(3 * speeds.size()) / 4];
  const auto is_slow = [&](const LinkSpeed& link) { return link.bytes_per_second < kSlow * usual; };

  // A host is slow in a direction if all of its links are. One link alone may be the other
  // host's fault.
  struct Host {
    std::array<std::vector<double>, 2> slow;  // sent, received
    std::array<size_t, 2> links{};
    bool is_slow(size_t direction) const {
      return links[direction] > 1 && slow[direction].size() == links[direction];
    }
  };
  std::map<int, Host> hosts;
  for (const LinkSpeed& link : links) {
    ++hosts[link.from].links[0];
    ++hosts[link.to].links[1];
    if (!is_slow(link)) continue;
    hosts[link.from].slow[0].push_back(link.bytes_per_second);
    hosts[link.to].slow[1].push_back(link.bytes_per_second);
  }
  std::vector<std::string> parts;
  for (const auto& [host, found] : hosts) {
    std::vector<std::string> directions;
    if (found.is_slow(0))
      directions.push_back(str("from ", name(host), " ", speed_text(mean(found.slow[0]))));
    if (found.is_slow(1))
      directions.push_back(str("to ", name(host), " ", speed_text(mean(found.slow[1]))));
    if (!directions.empty()) parts.push_back(join(directions, ", "));
  }
  for (const LinkSpeed& link : links) {
    if (!is_slow(link) || hosts[link.from].is_slow(0) || hosts[link.to].is_slow(1)) continue;
    parts.push_back(str("from ", name(link.from), " to ", name(link.to), " ",
                        speed_text(link.bytes_per_second)));
  }
  if (parts.empty()) return "";
  if (parts.size() > kMostNamed) {
    const size_t more = parts.size() - kMostNamed;
    parts.resize(kMostNamed);
    parts.push_back(str("and ", more, " more"));
  }
  return str("slow network: ", join(parts, "; "), "; most links between hosts carry ",
             speed_text(usual),
             ". The communication of all ranks waits for the slowest: look at its cable, its port "
             "of the switch and `ethtool`");
}

}  // namespace dtrain::dist
