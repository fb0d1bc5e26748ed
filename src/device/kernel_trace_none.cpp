// The build without GPU code (DTRAIN_CUDA=OFF): there are no kernels.

#include "device/kernel_trace.h"

namespace dtrain::device {

bool can_trace_kernels(at::Device) { return false; }

KernelTrace::KernelTrace(at::Device device) : device_(device) {}
KernelTrace::~KernelTrace() = default;
std::vector<trace::TrackEvents> KernelTrace::finish(trace::Recorder&) { return {}; }

}  // namespace dtrain::device
