// Device: the place of a tensor, which determines the backend that computes on it.
#pragma once

#include <string>

namespace tasuki {

enum class DeviceKind : unsigned char { cpu, cuda };

// A value, cheap to copy: the host's processor, or one GPU by its index among those visible.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index) { return {DeviceKind::cuda, index}; }
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  // "cpu" or "cuda:1".
  std::string text() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }

  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace tasuki
