// CRC-32C (Castagnoli), the checksum of iSCSI (RFC 3720) and of TensorFlow's record files.
#pragma once

#include <cstdint>
#include <string_view>

namespace tasuki {

std::uint32_t crc32c(std::string_view bytes);

// The checksum as record files have it: rotated by 15 bits and shifted by a constant, so that a
// checksum of bytes that contain checksums is no special case.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace tasuki
