// What a step leaves for the host to read later: rows of scalars and moments of its clock. On a CPU
// they are there at once.
#include "core/trace.hpp"
#include "tensor/cpu/cpu_backend.hpp"

namespace tasuki {

void CpuBackend::post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars,
                      const Tensor& clock) {
  const std::int64_t number = *row.data<std::int64_t>();
  const std::int64_t rows = table.shape()[0], columns = table.shape()[1];
  TASUKI_CHECK(std::ssize(scalars) < columns, "{} scalars for a table of {}", scalars.size(),
               table.shape().text());
  double* const to = table.data<double>() + number % rows * columns;
  for (std::size_t i = 0; i < scalars.size(); ++i) to[i + 1] = scalars[i].item();
  to[0] = static_cast<double>(number + 1);
  if (clock) stamp(clock, StepClock::Moment::end);
}

void CpuBackend::stamp(const Tensor& clock, StepClock::Moment moment) {
  const double now = trace_clock();
  TASUKI_CHECK(clock.count() == step_clock_values, "a clock of {}", clock.shape().text());
  auto* const steps = reinterpret_cast<StepClock*>(clock.data<double>());
  if (is_tracing() && moment != StepClock::Moment::resume && steps->since > 0)
    trace({.name = step_part_names.at(static_cast<std::size_t>(steps->part)),
           .row = TraceRow::step,
           .begin = steps->since,
           .end = now,
           .lane = trace_lane(steps)});
  steps->advance(moment, now);
}

}  // namespace tasuki
