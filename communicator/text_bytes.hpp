// Converts text and JSON values to bytes, as communicators send them, and back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "communicator/communicator.hpp"

namespace tasuki {

inline Bytes text_to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

// A view of `bytes`.
inline std::string_view bytes_to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// As CBOR, which keeps what JSON text loses: texts of any bytes, NaN, infinities, all bits of
// numbers. The objects of Communicator::bcast_object() travel like this.
Bytes object_to_bytes(const nlohmann::json& object);
nlohmann::json bytes_to_object(std::span<const std::byte> bytes);

}  // namespace tasuki
