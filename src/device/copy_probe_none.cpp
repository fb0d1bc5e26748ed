#include "device/copy_probe.h"

namespace dtrain::device {

CopyTrial try_peer_copy(int, int) { return {}; }
double host_copy_rate(int) { return 0; }

}  // namespace dtrain::device
