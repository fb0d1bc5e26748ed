#pragma once

// HDF5's handles as values that close themselves, and its error stack as one line of text. Private to the files of this
// module that talk to the HDF5 library. Only versioned names of the API are used: Debian maps the plain ones to 1.8's.

#include <hdf5.h>

#include <string>
#include <utility>

namespace dtrain::data::h5 {

class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
    return *this;
  }
  ~Handle() { close(); }

  explicit operator bool() const { return id_ >= 0; }
  hid_t get() const { return id_; }
  bool close() { return id_ < 0 || closer_(std::exchange(id_, -1)) >= 0; }  // false: HDF5 could not write what it held

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

// While it lives, HDF5 prints nothing on this thread. The first thing that any user of the library makes.
class SilentErrors {
 public:
  SilentErrors() {
    // Before any other call: a file that could not be flushed (full disk) stays open inside the library, whose own
    // clean-up at exit then dereferences it and turns our exit code into a crash.
    [[maybe_unused]] static const herr_t no_clean_up = H5dont_atexit();
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~SilentErrors() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  SilentErrors(const SilentErrors&) = delete;
  SilentErrors& operator=(const SilentErrors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// The innermost entry of HDF5's error stack: what really went wrong (it ends in errno's text for system calls).
inline std::string last_error() {
  std::string text;
  const auto first = [](unsigned position, const H5E_error2_t* entry, void* out) -> herr_t {
    if (position == 0 && entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &text);
  return text.empty() ? "the HDF5 library gives no reason" : text;
}

// File access without HDF5's own locks (they fail on NFS and Lustre), large objects on page boundaries.
inline Handle file_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
  H5Pset_alignment(access.get(), 4096, 4096);
  return access;
}

}  // namespace dtrain::data::h5
