#include "tasuki/core/process_age.hpp"

#include <chrono>

namespace tasuki {
namespace {

const auto loaded_at = std::chrono::steady_clock::now();

}  // namespace

double process_age() {
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - loaded_at;
  return age.count();
}

}  // namespace tasuki
