// Calls of HDF5's C library: one thread at a time, handles that close themselves, and errors of
// ours.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string_view>
#include <utility>

namespace tasuki::hdf5 {

// Held around all calls; a thread may hold several. HDF5 prints no errors meanwhile; the program's
// way of printing them, if it uses the same library, is put back.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_to_ = nullptr;
};

// Throws an error of kind data: `place`, what could not be done, and HDF5's reason.
[[noreturn]] void fail_because_of_hdf5(std::string_view place, std::string_view what);

// HDF5's results are negative if a call failed.
template <class Result>
Result checked(Result result, std::string_view place, std::string_view what) {
  if (result < 0) fail_because_of_hdf5(place, what);
  return result;
}

// An open file, data set, data space, type or property list. It is closed with a Turn held.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() { close(); }
  void close() {
    if (id_ >= 0) H5Idec_ref(id_);
    id_ = H5I_INVALID_HID;
  }
  hid_t get() const { return id_; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// A handle from a call that may have failed.
inline Handle opened(hid_t id, std::string_view place, std::string_view what) {
  return Handle(checked(id, place, what));
}

}  // namespace tasuki::hdf5
