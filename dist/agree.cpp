#include "dist/agree.h"

#include "core/error.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"
#include "text/strings.h"

namespace dtrain::dist {

void agree(Communicator& comm, const std::function<void()>& step) {
  Failure failure{0, ""};
  try {
    step();
  } catch (...) {
    failure = describe(std::current_exception());
  }
  const std::vector<int> codes = all_gather_object(comm, failure.exit_code);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int code = codes[static_cast<size_t>(rank)];
    if (code == 0) continue;
    if (rank != comm.rank()) throw AgreedFailure{code, rank};
    report(failure);
    throw AgreedFailure{code, rank, failure.message};
  }
}

void agree_on_rank0(Communicator& comm, const std::function<void()>& step) {
  agree(comm, [&] {
    if (comm.rank() == 0) step();
  });
}

void agree_on_devices(Communicator& comm, const std::string& failure) {
  const std::vector<std::string> failures = all_gather_object(comm, failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty())
      throw DeviceError(str("on the host of rank ", rank, ": ", failures[rank]));
  }
}

}  // namespace dtrain::dist
