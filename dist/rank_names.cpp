#include "dist/rank_names.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

constexpr size_t kMostPairs = 4;  // a longer list does not help

const std::string& host_of(int rank, std::span<const std::string> nodes) {
  return nodes[static_cast<size_t>(rank)];
}

}  // namespace

bool several_hosts(std::span<const std::string> nodes) {
  return std::ranges::any_of(nodes, [&](const std::string& node) { return node != nodes.front(); });
}

std::string rank_numbers(const std::vector<int>& ranks) {
  return str(ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks));
}

std::string ranks_on(const std::vector<int>& ranks, std::span<const std::string> nodes) {
  return rank_numbers(ranks) + (several_hosts(nodes) ? " on " + host_of(ranks.front(), nodes) : "");
}

std::string describe_gaps(std::span<const Gap> gaps, std::span<const std::string> nodes) {
  struct Pair {
    bool to_first = false, to_second = false;  // nothing is heard there of the other one,
    bool arrives_at_first = false, arrives_at_second = false;  // but packets arrive
  };
  std::map<std::pair<std::string, std::string>, Pair> pairs;
  for (const Gap& gap : gaps) {
    std::string here = host_of(gap.of, nodes), there = host_of(gap.from, nodes);
    if (here == there) {  // several hosts may have one name
      here = str("rank ", gap.of, " on ", here);
      there = str("rank ", gap.from, " on ", there);
    }
    Pair& pair = pairs[std::minmax(here, there)];
    (here < there ? pair.to_first : pair.to_second) = true;
    if (gap.packets_arrive) (here < there ? pair.arrives_at_first : pair.arrives_at_second) = true;
  }
  std::vector<std::string> parts;
  for (const auto& [hosts, pair] : pairs) {
    const auto& [first, second] = hosts;
    const auto one_way = [](const std::string& from, const std::string& to) {
      return str("what ", to, " sends arrives at ", from, ", but nothing arrives from ", from,
                 " to ", to);
    };
    if (parts.size() == kMostPairs) {
      parts.push_back(str("and ", pairs.size() - kMostPairs, " more pairs of hosts"));
      break;
    }
    parts.push_back(pair.arrives_at_first == pair.arrives_at_second
                        ? str(first, " and ", second, " do not reach each other")
                    : pair.arrives_at_first ? one_way(first, second)
                                            : one_way(second, first));
  }
  const auto& [first, second] = pairs.begin()->first;
  const bool are_hosts = first.find(' ') == first.npos;
  return str(join(parts, "; "), ". A firewall or a broken link is between them: `launch/ssh/check ",
             are_hosts ? str(first, " ", second) : "HOST HOST", "` tries their ports");
}

}  // namespace dtrain::dist
