// What a step leaves for the host to read later: rows of scalars and moments of its clock. On a CPU
// they are there at once.
#include <chrono>

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {

void CpuBackend::post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars) {
  const std::int64_t number = *row.data<std::int64_t>();
  const std::int64_t rows = table.shape()[0], columns = table.shape()[1];
  TASUKI_CHECK(std::ssize(scalars) < columns, "{} scalars for a table of {}", scalars.size(),
               table.shape().text());
  double* const to = table.data<double>() + number % rows * columns;
  for (std::size_t i = 0; i < scalars.size(); ++i) to[i + 1] = scalars[i].item();
  to[0] = static_cast<double>(number + 1);
}

void CpuBackend::stamp(const Tensor& clock, StepClock::Moment moment) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  TASUKI_CHECK(clock.count() == step_clock_values, "a clock of {}", clock.shape().text());
  reinterpret_cast<StepClock*>(clock.data<double>())
      ->advance(moment, std::chrono::duration<double>(now).count());
}

}  // namespace tasuki
