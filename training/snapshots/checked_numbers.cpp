#include "training/snapshots/checked_numbers.hpp"

#include <cmath>

#include "core/error.hpp"

namespace tasuki {

void serialize_count(const Serializer& serializer, const std::string& name, std::int64_t& value,
                     std::int64_t most) {
  serializer(name, value);
  if (serializer.is_loading() && (value < 0 || value > most))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected a number from 0 to {}, found {}",
                    name, most, value);
}

void serialize_finite(const Serializer& serializer, const std::string& name, double& value) {
  serializer(name, value);
  if (serializer.is_loading() && !std::isfinite(value))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected a number, found {}", name, value);
}

void serialize_seconds(const Serializer& serializer, const std::string& name, double& value) {
  serializer(name, value);
  if (serializer.is_loading() && !(std::isfinite(value) && value >= 0))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected seconds from 0, found {}", name,
                    value);
}

}  // namespace tasuki
