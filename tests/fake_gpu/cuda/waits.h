#pragma once

// The places of the program where something waits: a stream for an event, the host for a device,
// the allocator for a stream that uses memory. A place is a kind of wait, and the two innermost
// functions of the program that asked for it. What an operator of LibTorch waits for is LibTorch's.
//
// FAKE_GPU_WAITS has a line per place: its key, the kind, and the return addresses in the program.
//
// Thread-safety: may be called from any thread.

namespace fake_gpu {

// Whether the wait happens. `kind`: the function of the runtime, or "record_stream", which is an
// operator itself.
bool waits_here(const char* kind);

}  // namespace fake_gpu
