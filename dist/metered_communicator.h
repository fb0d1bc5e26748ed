#pragma once

// A communicator that counts what it carries, for the dtrain_collective_* metrics, and puts its
// operations into traces.

#include <memory>

#include "dist/communicator.h"
#include "dist/traffic.h"

namespace dtrain::dist {

class MeteredCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

  // Counts the operations that have ended and were waited for. Any thread may call it.
  virtual Traffic traffic() = 0;
  // Each operation that is counted from now on is an event of the track. Nothing may be in flight.
  // nullptr: no longer, which neither waits nor throws.
  virtual void record(trace::Track* track) = 0;
};

// Counts the operations of a communicator of host tensors by the times that their Work tells. Those
// on a device count themselves, because the host does not wait for an operation and its Work tells
// no time: NCCL's by events of its stream, the staged one's as the host communicator that it uses.
std::unique_ptr<MeteredCommunicator> make_metered_communicator(std::unique_ptr<Communicator>);

}  // namespace dtrain::dist
