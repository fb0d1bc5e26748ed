#pragma once

// The names of dtrain's own threads, as `top -H`, debuggers and /proc/self/task/ID/comm show them.
// The diagnosis tells by them which threads compute: those that have none of these
// names (machine/counters.h).

namespace dtrain {

inline constexpr const char* kReaderThread = "dt-reader";    // thread of a loader
inline constexpr const char* kCommThread = "dt-comm";        // thread of a communicator
inline constexpr const char* kServiceThread = "dt-service";  // watchdog, metrics, sensors

// Of the calling thread; threads that it starts later inherit it. At most 15 characters.
void name_this_thread(const char* name);

}  // namespace dtrain
