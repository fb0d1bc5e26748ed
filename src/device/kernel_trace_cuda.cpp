#include "device/kernel_trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "device/device.h"
#include "text/strings.h"

namespace dtrain::device {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

const std::set<ActivityType>& activities() {
  static const std::set<ActivityType> gpu = {ActivityType::CUDA};
  return gpu;
}

// Kineto gives times since 1970.
trace::Time steady_minus_wall() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return trace::now() - std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count();
}

}  // namespace

bool can_trace_kernels(at::Device device) { return device.is_cuda(); }

KernelTrace::KernelTrace(at::Device device) : device_(device) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  kineto::prepareProfiler(config, activities());
  kineto::enableProfiler(config, activities());
}

KernelTrace::~KernelTrace() {
  if (!runs_) return;
  try {
    kineto::disableProfiler();
  } catch (...) {  // an error is on its way already
  }
}

std::vector<trace::TrackEvents> KernelTrace::finish(trace::Recorder& recorder) {
  works(device_);  // waits
  runs_ = false;
  const std::unique_ptr<kineto::ProfilerResult> result = kineto::disableProfiler();
  const trace::Time shift = steady_minus_wall();
  std::map<int64_t, trace::TrackEvents> streams;
  for (const kineto::KinetoEvent& event : result->events()) {
    if (event.deviceType() != at::kCUDA || event.deviceIndex() != device_.index()) continue;
    trace::TrackEvents& stream = streams[event.deviceResourceId()];
    stream.name = dtrain::str(device_, " stream ", event.deviceResourceId());
    stream.place = trace::kDevicePlace;
    stream.events.push_back({.name = recorder.intern(event.name()),
                             .begin = static_cast<trace::Time>(event.startNs()) + shift,
                             .end = static_cast<trace::Time>(event.endNs()) + shift,
                             .kind = trace::Kind::kKernel});
  }
  std::vector<trace::TrackEvents> tracks;
  for (auto& [number, stream] : streams) tracks.push_back(std::move(stream));
  return tracks;
}

}  // namespace dtrain::device
