#pragma once

// Whether packets of another host still arrive, although none of its ranks is heard: then what this
// host sends is lost on the way there, and the other host repeats what was never acknowledged.
// Thread-safety: any thread. Reads /proc/self/fd and asks the kernel about each TCP connection; for
// faults only.

#include <optional>
#include <string>
#include <vector>

namespace dtrain::dist {

// Seconds since the last packet on any TCP connection of this process with one of these addresses
// (address_text()) on which something that was sent has not been acknowledged. None without such a
// connection: others, as of a browser that reads metrics, say nothing of the way that ranks use.
std::optional<double> seconds_since_packet(const std::vector<std::string>& addresses);

}  // namespace dtrain::dist
