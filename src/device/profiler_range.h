#pragma once

// A named range on the time line of NVIDIA's profilers (`nsys profile dtrain ...`), by NVTX.
// Without a profiler begin() and end() only test a pointer. In a build without CUDA they do
// nothing (device_none.cpp).
//
// Thread-safety: none; a range begins and ends on one thread.

namespace dtrain::device {

class ProfilerRange {
 public:
  ProfilerRange() = default;
  ~ProfilerRange() { end(); }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  void begin(const char* name);  // ends the open range first
  void end();                    // does nothing if no range is open

 private:
  bool open_ = false;
};

}  // namespace dtrain::device
