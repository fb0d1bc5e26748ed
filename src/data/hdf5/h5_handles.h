#pragma once

// RAII for handles of the HDF5 library, and its error stack as text. Private to the files that call
// the library. They use only versioned names of its API, because Debian maps the unversioned ones
// to HDF5 1.8.

#include <hdf5.h>

#include <cstdlib>
#include <string>
#include <string_view>
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
  // False: HDF5 could not write buffered data
  bool close() { return id_ < 0 || closer_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

// HDF5 prints no errors on this thread during the lifetime of this object. Every use of the library
// starts with one.
class SilentErrors {
 public:
  SilentErrors() {
    // Must come before any other call. A file that could not be flushed (full disk) stays open
    // inside the library; its cleanup at exit would then crash the process and hide our exit code.
    [[maybe_unused]] static const herr_t no_cleanup = H5dont_atexit();
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

// The innermost entry of HDF5's error stack, which names the cause (for system calls it ends with
// the text of errno).
inline std::string last_error() {
  std::string text;
  const auto first = [](unsigned position, const H5E_error2_t* entry, void* out) -> herr_t {
    if (position == 0 && entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &text);
  return text.empty() ? "the HDF5 library gives no reason" : text;
}

// The errno of a failed system call in such a text ("..., errno = 27, error message = ..."); 0 if
// there is none.
inline int errno_in(const std::string& text) {
  constexpr std::string_view kBefore = "errno = ";
  const size_t place = text.find(kBefore);
  return place == std::string::npos ? 0 : std::atoi(text.c_str() + place + kBefore.size());
}

// File access properties: no file locks (they fail on NFS and Lustre), large objects aligned to
// pages, and the metadata format of HDF5 1.8, which has checksums and allows attributes of more
// than 64 KiB.
inline Handle file_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), /*use_file_locking=*/false, /*ignore_when_disabled=*/true);
  H5Pset_alignment(access.get(), 4096, 4096);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18);
  return access;
}

}  // namespace dtrain::data::h5
