// The build without GPU code (DTRAIN_CUDA=OFF): a machine without GPUs.

#include "core/error.h"
#include "device/copy_probe.h"
#include "device/cuda_graph.h"
#include "device/device.h"
#include "device/kernel_trace.h"
#include "device/profiler_range.h"
#include "text/strings.h"

namespace dtrain::device {

int gpu_count() { return 0; }
Driver find_driver() { return {}; }
bool has_driver_library() { return false; }
void load_gpu_operators() {}
std::string unusable_gpu() { return ""; }
bool works(at::Device) noexcept { return true; }
void hold(at::Device, double) {}

Properties gpu_properties(int index) {
  throw DeviceError(str("there is no GPU ", index, ": this dtrain was built without GPU code"));
}

std::string cuda_runtime_version() { return "none"; }

CopyTrial try_peer_copy(int, int) { return {}; }
double host_copy_rate(int) { return 0; }

CudaGraph::Memory CudaGraph::new_memory() { return 0; }
CudaGraph::CudaGraph(at::Device device, Memory memory, const std::function<void()>&)
    : device_(device), memory_(memory) {
  throw DeviceError("a CUDA graph was asked of a dtrain that was built without GPU code");
}
CudaGraph::~CudaGraph() = default;
void CudaGraph::launch() const {}
void release_unused_memory(at::Device) {}

bool can_trace_kernels(at::Device) { return false; }
KernelTrace::KernelTrace(at::Device device) : device_(device) {}
KernelTrace::~KernelTrace() = default;
std::vector<trace::TrackEvents> KernelTrace::finish(trace::Recorder&) { return {}; }

void ProfilerRange::begin(const char* /*name*/) {}
void ProfilerRange::end() { open_ = false; }

}  // namespace dtrain::device
