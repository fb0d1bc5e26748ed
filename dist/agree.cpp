#include "dist/agree.h"

#include "core/log.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"

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
    if (rank == comm.rank() && !failure.message.empty()) log::error(failure.message);
    throw AgreedFailure{code};
  }
}

void agree_on_rank0(Communicator& comm, const std::function<void()>& step) {
  agree(comm, [&] {
    if (comm.rank() == 0) step();
  });
}

}  // namespace dtrain::dist
