// The losses that programs in other languages choose by name (tasuki.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "nn/variable.hpp"

namespace tasuki::bindings {

struct NamedLoss {
  const char* name;
  // Targets may be labels (int32 or int64), or floating-point values.
  bool takes_labels, takes_values;
  // Whether a result has an axis 1, of the classes, that targets lack; labels are below their
  // number. Else labels are 0 and 1.
  bool has_classes;
  Variable (*loss)(const Variable& y, const Tensor& t);
};

// An unknown name is a usage error that lists the known ones.
const NamedLoss& loss_named(std::string_view name);

// The number of targets over which a loss is a mean: labels of -1 do not count. Without labels, the
// number of examples. `t` is on the CPU. A label that is not from -1 to `classes` - 1 is a usage
// error.
std::int64_t weight_of(const Tensor& t, std::int64_t classes);

}  // namespace tasuki::bindings
