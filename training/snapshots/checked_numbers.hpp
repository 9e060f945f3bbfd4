// Numbers in snapshots that a run computes with: a file from elsewhere may have any.
#pragma once

#include <cstdint>
#include <string>

#include "training/snapshots/serializer.hpp"

namespace tasuki {

// As Serializer's operator(). A loaded number that is not from 0 to `most`, or not finite, is an
// error of kind data on all ranks that says what was found.
void serialize_count(const Serializer& serializer, const std::string& name, std::int64_t& value,
                     std::int64_t most = std::int64_t{1} << 62);
void serialize_finite(const Serializer& serializer, const std::string& name, double& value);
// Finite and not negative.
void serialize_seconds(const Serializer& serializer, const std::string& name, double& value);

}  // namespace tasuki
