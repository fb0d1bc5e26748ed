#pragma once

// An error of communication that says whose failure it is. Any other error is that of the rank
// that throws it.

#include <exception>
#include <optional>
#include <string>

#include "core/error.h"

namespace dtrain::dist {

// This rank can no longer exchange data with others.
class PeerError : public CommError {
 public:
  // `peer`: the rank of the job that failed; none: not known.
  explicit PeerError(const std::string& message, std::optional<int> peer = std::nullopt)
      : CommError(message), peer_(peer) {}
  std::optional<int> peer() const { return peer_; }

 private:
  std::optional<int> peer_;
};

// The peer that `error` names, if it is a PeerError.
inline std::optional<int> peer_of(const std::exception& error) {
  const auto* of_peer = dynamic_cast<const PeerError*>(&error);
  return of_peer == nullptr ? std::nullopt : of_peer->peer();
}

}  // namespace dtrain::dist
