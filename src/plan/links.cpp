#include "plan/links.h"

#include <optional>

#include "core/check.h"
#include "core/error.h"
#include "text/number_text.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::plan {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMostLinks = 64;  // COUNTxNAME
constexpr const char* kUsualBetween = "100gbe";
constexpr const char* kMeasured = "measured";

const Link* find(std::string_view name) {
  for (const Link& link : known_links()) {
    if (link.name == name) return &link;
  }
  return nullptr;
}

UsageError unknown(std::string_view word) {
  std::vector<std::string> names;
  for (const Link& link : known_links()) names.push_back(link.name);
  names.emplace_back(kMeasured);
  const std::string near = nearest(word, names);
  return UsageError(str("--interconnect: there is no '", printable(word), "'",
                        near.empty() ? "." : str("; did you mean '", near, "'?"), " Known are ",
                        join(names, ", "),
                        ", a number of them (4xib100), and ALPHA,BETA (µs of a message, GB/s)"));
}

// "5.2,11.8" -> a link; nullopt: not two numbers.
std::optional<Link> alpha_beta(std::string_view word) {
  const size_t comma = word.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto alpha = parse_number<double>(trimmed(word.substr(0, comma)));
  const auto beta = parse_number<double>(trimmed(word.substr(comma + 1)));
  constexpr double kMostMicroseconds = 1e9, kLeastGigabytes = 1e-6, kMostGigabytes = 1e6;
  const bool sound = alpha && beta && *alpha >= 0 && *alpha <= kMostMicroseconds &&
                     *beta >= kLeastGigabytes && *beta <= kMostGigabytes;  // false for nan
  if (!sound) {
    throw UsageError(str("--interconnect ", printable(word),
                         ": ALPHA,BETA are the latency of a message in µs, from 0 to 1e9, and the "
                         "bandwidth in GB/s, from 1e-6 to 1e6, such as 5.2,11.8"));
  }
  return Link{.name = std::string(word),
              .kind = LinkKind::kGiven,
              .bytes_per_second = *beta * kGiga,
              .hop_seconds = *alpha * 1e-6};
}

Link parse_link(std::string_view word, const Link* measured) {
  if (word == kMeasured) {
    if (measured != nullptr) return *measured;
    throw UsageError(
        "--interconnect measured: one rank alone has no link to measure. Start several (mpirun -np "
        "2 dtrain plan ...), or name a link");
  }
  if (const std::optional<Link> given = alpha_beta(word)) return *given;
  if (const Link* link = find(word)) return *link;
  const size_t x = word.find('x');
  const auto count = parse_number<double>(word.substr(0, x));
  const Link* one = x == std::string_view::npos ? nullptr : find(word.substr(x + 1));
  if (one == nullptr || !count || !(*count >= 1 && *count <= kMostLinks)) throw unknown(word);
  Link many = *one;
  many.name = word;
  many.bytes_per_second *= *count;
  return many;
}

}  // namespace

const std::vector<Link>& known_links() {
  using enum LinkKind;
  static const std::vector<Link> all = {
      {"nvlink1", kNvlink, 4 * 18.0 * kGiga},      // P100 SXM: 4 NVLinks
      {"nvlink2", kNvlink, 6 * 20.0 * kGiga},      // V100 SXM: 6 NVLinks
      {"nvlink3", kNvlink, 12 * 20.0 * kGiga},     // A100 SXM: 12 NVLinks
      {"nvlink4", kNvlink, 18 * 20.6 * kGiga},     // H100 and H200 SXM: 18 NVLinks, as a ring
      {"nvlink5", kNvlink, 18 * 40.1 * kGiga},     // B200: 18 NVLinks, as a ring
      {"nvlink-3090", kNvlink, 4 * 12.0 * kGiga},  // two RTX 3090 with a bridge: 4 NVLinks
      {"pcie3", kPcie, 12 * kGiga},                // PCIe 3.0 x16 with peer-to-peer copies
      {"pcie4", kPcie, 24 * kGiga},                // PCIe 4.0 x16 with peer-to-peer copies
      {"pcie5", kPcie, 48 * kGiga},                // PCIe 5.0 x16 with peer-to-peer copies
      // Without such copies (GeForce), through the host's memory
      {"pcie3-host", kPcie, 12 * kGiga, 0, true},
      {"pcie4-host", kPcie, 24 * kGiga, 0, true},
      {"pcie5-host", kPcie, 48 * kGiga, 0, true},
      {"shm", kHost, 25 * kGiga, 1.5e-6, true},  // ranks on the CPUs of one host
      {"1gbe", kNetwork, 0.12 * kGiga, 25e-6},   // Ethernet, 1 Gbit/s
      {"10gbe", kNetwork, 1.2 * kGiga, 25e-6},   // Ethernet, 10 Gbit/s
      {"25gbe", kNetwork, 3 * kGiga, 14e-6},     // Ethernet, 25 Gbit/s
      {"40gbe", kNetwork, 4.8 * kGiga, 14e-6},   // Ethernet, 40 Gbit/s
      {"100gbe", kNetwork, 12 * kGiga, 14e-6},   // Ethernet, 100 Gbit/s
      {"200gbe", kNetwork, 24 * kGiga, 14e-6},   // Ethernet, 200 Gbit/s
      {"400gbe", kNetwork, 48 * kGiga, 14e-6},   // Ethernet, 400 Gbit/s
      {"ib100", kNetwork, 12 * kGiga, 5e-6},     // InfiniBand EDR
      {"ib200", kNetwork, 24 * kGiga, 5e-6},     // InfiniBand HDR
      {"ib400", kNetwork, 48 * kGiga, 5e-6},     // InfiniBand NDR
  };
  return all;
}

Link link_of_fit(const dist::CostFit& fit, int64_t ranks) {
  DTRAIN_CHECK(ranks >= 2, ranks, " ranks have no link");
  const auto n = static_cast<double>(ranks);
  const double steps = 2 * (n - 1);  // all-reduce steps, each with 1/n of the bytes
  constexpr double kFastest = 1e15;  // a fit without a term for the size
  return {
      .name = kMeasured,
      .kind = LinkKind::kGiven,
      .bytes_per_second = fit.seconds_per_byte > 0 ? steps / n / fit.seconds_per_byte : kFastest,
      .hop_seconds = fit.latency / steps};
}

Interconnect parse_interconnect(std::string_view text, const Link* measured, bool gpus) {
  const Link &usual_inside = *find(gpus ? "pcie4" : "shm"), &usual_between = *find(kUsualBetween);
  if (text.empty())
    return {
        .inside = usual_inside, .between = usual_between, .assumed = {usual_inside, usual_between}};
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    Interconnect both{.inside = parse_link(trimmed(text.substr(0, plus)), measured),
                      .between = parse_link(trimmed(text.substr(plus + 1)), measured),
                      .assumed = {}};
    const bool inside_is_wrong = both.inside.kind == LinkKind::kNetwork;
    if (inside_is_wrong || both.between.in_node()) {
      throw UsageError(str("--interconnect ", printable(text),
                           ": the first link is inside a node, the second between nodes, and ",
                           printable(inside_is_wrong ? both.inside.name : both.between.name),
                           " is in the wrong place"));
    }
    return both;
  }
  const Link link = parse_link(trimmed(text), measured);
  if (link.kind == LinkKind::kGiven) return {.inside = link, .between = link, .assumed = {}};
  if (link.in_node()) return {.inside = link, .between = usual_between, .assumed = {usual_between}};
  return {.inside = usual_inside, .between = link, .assumed = {usual_inside}};
}

}  // namespace dtrain::plan
