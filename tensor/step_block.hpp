// StepBlock: the numbers of a step that change from one to the next, in one small piece of device
// memory.
//
// Device work that is recorded once and repeated (Backend::record) must not take such numbers from
// the host when it is asked for: they would be the same for ever. It reads them from a block, which
// the host fills and sends before each step with one copy that nobody waits for.
#pragma once

#include <cstdint>
#include <span>

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class StepBlock {
 public:
  explicit StepBlock(Device device) : device_(device) {}
  StepBlock(const StepBlock&) = delete;
  StepBlock& operator=(const StepBlock&) = delete;

  struct Field {
    std::int64_t offset = 0;  // bytes
    std::int64_t count = 0;   // values
    DType dtype = DType::int64;
  };
  // Room for `count` values, zero at first. All room is reserved before any of it is used.
  Field reserve(std::int64_t count, DType dtype);

  Device device() const { return device_; }
  // Where the host writes.
  template <class T>
  std::span<T> host(const Field& field) {
    return view(host_memory(), field).span<T>();
  }
  // Where the device reads what the host had written before the last send().
  Tensor on_device(const Field& field) { return view(device_memory(), field); }
  void send();

 private:
  static Tensor view(const Tensor& memory, const Field& field);
  const Tensor& host_memory();
  const Tensor& device_memory();

  Device device_;
  std::int64_t bytes_ = 0;
  Tensor host_, on_device_;  // the same memory on a CPU
};

}  // namespace tasuki
