// Converts text to bytes for sending, and back.
#pragma once

#include <span>
#include <string_view>

#include "communicator/bytes.hpp"

namespace tasuki {

inline Bytes text_to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

// A view of `bytes`.
inline std::string_view bytes_to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tasuki
