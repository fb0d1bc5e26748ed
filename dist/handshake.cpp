#include "dist/handshake.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "dist/backoff.h"
#include "dist/peer_error.h"
#include "dist/rank_names.h"
#include "dist/world.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

constexpr double kForReports = 2;  // seconds after the timeout
constexpr auto kForTheOneThatKnows = std::chrono::seconds(5);

// Small enough that MPI sends it at once, without asking the receiver first.
struct Card {
  char words[1000] = "";  // the name and the addresses of the host
};

struct Report {
  int32_t count = 0;  // number of ranks that have not been reached
  std::array<int32_t, 32> first{};
};

Card card_of(const Peer& peer) {
  Card card;
  std::string text = peer.node;
  for (const std::string& address : peer.addresses) {
    if (text.size() + 1 + address.size() < sizeof card.words) text += " " + address;
  }
  std::strncpy(card.words, text.c_str(), sizeof card.words - 1);
  return card;
}

Peer peer_of(const Card& card) {
  std::vector<std::string> all =
      words(std::string_view(card.words, ::strnlen(card.words, sizeof card.words)));
  if (all.empty()) return {};
  return {all.front(), {all.begin() + 1, all.end()}};
}

// One message to each other rank, and one from each.
template <typename Message>
class Exchange {
 public:
  Exchange(int rank, int size, int tag)
      : rank_(rank),
        tag_(tag),
        in_(static_cast<size_t>(size)),
        receives_(in_.size(), MPI_REQUEST_NULL),
        sends_(in_.size(), MPI_REQUEST_NULL),
        arrived_(in_.size(), false) {
    arrived_[static_cast<size_t>(rank)] = true;
    for_others([&](int from) {
      check_mpi(MPI_Irecv(&in_[static_cast<size_t>(from)], sizeof(Message), MPI_BYTE, from, tag_,
                          MPI_COMM_WORLD, &receives_[static_cast<size_t>(from)]),
                "MPI_Irecv");
    });
  }

  void send(const Message& message) {
    in_[static_cast<size_t>(rank_)] = message;
    for_others([&](int to) {
      check_mpi(MPI_Isend(&in_[static_cast<size_t>(rank_)], sizeof(Message), MPI_BYTE, to, tag_,
                          MPI_COMM_WORLD, &sends_[static_cast<size_t>(to)]),
                "MPI_Isend");
    });
  }

  // Returns whether anything moved. A message that fails counts as one that never arrives.
  bool progress() {
    bool moved = false;
    for_others([&](int other) {
      const auto index = static_cast<size_t>(other);
      moved = finished(receives_[index], [&] { arrived_[index] = true; }) || moved;
      moved = finished(sends_[index], [] {}) || moved;
    });
    return moved;
  }

  bool sent() const { return std::ranges::count(sends_, MPI_REQUEST_NULL) == std::ssize(sends_); }
  bool arrived(int from) const { return arrived_[static_cast<size_t>(from)]; }
  bool all_arrived() const { return std::ranges::count(arrived_, false) == 0; }
  const Message& from(int rank) const { return in_[static_cast<size_t>(rank)]; }

 private:
  template <typename Body>
  void for_others(Body body) const {
    for (int other = 0; other < static_cast<int>(in_.size()); ++other) {
      if (other != rank_) body(other);
    }
  }

  template <typename Then>
  bool finished(MPI_Request& request, Then then) {
    if (request == MPI_REQUEST_NULL) return false;
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      request = MPI_REQUEST_NULL;
      return true;
    }
    if (done != 0) then();
    return done != 0;
  }

  const int rank_, tag_;
  std::vector<Message> in_;  // one per rank, in rank order, including this rank's own
  std::vector<MPI_Request> receives_, sends_;
  std::vector<bool> arrived_;
};

class Handshake {
 public:
  Handshake(int rank, int size)
      : rank_(rank), size_(size), cards_(rank, size, 1), reports_(rank, size, 2) {}

  // Whether all ranks have reached each other.
  bool run(const Peer& own, double timeout) {
    node_ = own.node;
    cards_.send(card_of(own));
    wait(timeout, [&] { return cards_.all_arrived(); });
    Report report;
    for (int rank = 0; rank < size_; ++rank) {
      if (cards_.arrived(rank)) continue;
      if (static_cast<size_t>(report.count) < report.first.size())
        report.first[static_cast<size_t>(report.count)] = rank;
      ++report.count;
    }
    reports_.send(report);
    last_report_ = seconds_;
    // No rank leaves before all have sent a report: a collective would keep those that are asked.
    wait(timeout + kForReports, [&] { return reports_.all_arrived() || said_missing(); });
    if (!missing().empty()) return false;
    wait(timeout + 2 * kForReports, [&] { return is_idle(); });
    return true;
  }

  // Whether MPI needs the memory of this object no longer.
  bool is_idle() const {
    return cards_.sent() && reports_.sent() && cards_.all_arrived() && reports_.all_arrived();
  }

  std::vector<Peer> peers() const {
    std::vector<Peer> all;
    for (int rank = 0; rank < size_; ++rank)
      all.push_back(cards_.arrived(rank) ? peer_of(cards_.from(rank)) : Peer{});
    return all;
  }

  // Pairs of ranks, as far as it is known here.
  std::vector<std::pair<int, int>> missing() const {
    std::vector<std::pair<int, int>> pairs;
    for (int rank = 0; rank < size_; ++rank) {
      if (!reports_.arrived(rank)) {
        // One of this host that has been reached is only a little later.
        if (!cards_.arrived(rank) || peer_of(cards_.from(rank)).node != node_)
          pairs.emplace_back(rank_, rank);
        continue;
      }
      const Report& report = reports_.from(rank);
      const auto listed = std::min(report.first.size(), static_cast<size_t>(report.count));
      for (size_t i = 0; i < listed; ++i) pairs.emplace_back(rank, report.first[i]);
    }
    return pairs;
  }

  // Whether this rank should speak: it knows the most.
  bool speaks() const {
    const auto complete = [&](int rank) {
      return reports_.arrived(rank) && reports_.from(rank).count == 0;
    };
    const auto heard = [&](int rank) { return reports_.arrived(rank); };
    return first_rank(complete).value_or(first_rank(heard).value_or(rank_)) == rank_;
  }

  double seconds() const { return seconds_; }

 private:
  bool said_missing() const {
    for (int rank = 0; rank < size_; ++rank) {
      if (reports_.arrived(rank) && reports_.from(rank).count > 0)
        return seconds_ > last_report_ + kForReports / 2;
    }
    return false;
  }

  template <typename Predicate>
  std::optional<int> first_rank(Predicate predicate) const {
    for (int rank = 0; rank < size_; ++rank) {
      if (predicate(rank)) return rank;
    }
    return std::nullopt;
  }

  template <typename Done>
  void wait(double until, Done done) {
    Backoff backoff;
    auto last = std::chrono::steady_clock::now();
    while (!done() && seconds_ < until) {
      const bool moved = cards_.progress();
      if (reports_.progress()) last_report_ = seconds_;
      if (moved) backoff.progressed();
      backoff.wait();
      const auto now = std::chrono::steady_clock::now();
      // more: the job was suspended
      seconds_ += std::min(std::chrono::duration<double>(now - last).count(), 1.0);
      last = now;
    }
  }

  const int rank_, size_;
  std::string node_;
  Exchange<Card> cards_;
  Exchange<Report> reports_;
  double seconds_ = 0, last_report_ = 0;
};

}  // namespace

std::vector<Peer> shake_hands(const Peer& own, int rank, int size, double timeout) {
  if (size == 1) return {own};
  auto* handshake = new Handshake(rank, size);  // not destroyed while MPI may use its memory
  const bool all = handshake->run(own, timeout);
  std::vector<Peer> peers = handshake->peers();
  if (all) {
    if (handshake->is_idle()) delete handshake;
    return peers;
  }
  if (!handshake->speaks()) std::this_thread::sleep_for(kForTheOneThatKnows);
  std::vector<std::string> nodes;
  for (const Peer& peer : peers) nodes.push_back(peer.node);
  nodes[static_cast<size_t>(rank)] = own.node;
  throw PeerError(describe_unreached(handshake->missing(), nodes, handshake->seconds()));
}

std::string describe_unreached(std::span<const std::pair<int, int>> missing,
                               std::span<const std::string> nodes, double seconds) {
  std::vector<Gap> gaps;
  std::set<int> said, ranks, silent;  // silent: no rank is known to have heard of them
  for (const auto& [rank, other] : missing) {
    gaps.push_back({rank, other});
    said.insert(rank);
    ranks.insert({rank, other});
    if (nodes[static_cast<size_t>(other)].empty()) silent.insert(other);
  }
  const std::string start = str("after ", fixed(seconds, 0), " s of start-up, ");
  if (!silent.empty()) {
    const std::vector<int> all(silent.begin(), silent.end());
    const std::string& host = nodes[static_cast<size_t>(*said.begin())];
    const bool one_host = std::ranges::all_of(
        said, [&](int rank) { return nodes[static_cast<size_t>(rank)] == host; });
    return str(start, rank_numbers(all), all.size() == 1 ? " has" : " have", " not reached ",
               rank_numbers({said.begin(), said.end()}), one_host ? " on " + host : "", ": ",
               all.size() == 1 ? "its process is" : "their processes are",
               " stopped or dead, or a firewall or a broken link is between the hosts. "
               "`launch/ssh/check` with the names of all hosts tries their ports");
  }
  return str(start, rank_numbers({ranks.begin(), ranks.end()}),
             " are not all connected to each other: ", describe_gaps(gaps, nodes));
}

}  // namespace dtrain::dist
