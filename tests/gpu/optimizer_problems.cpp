#include <array>
#include <limits>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

// Where an update finds its factors: with the pass, in a row on the device, or in several rows.
enum class Place : std::uint8_t { pass, row, rows };

UpdateFactors factors_of(UpdateKernel kernel, float scale) {
  const float third = kernel == UpdateKernel::adam ? 0.01f : 1e-6f;
  return kernel == UpdateKernel::adadelta
             ? UpdateFactors{scale, 0.01f, {0.1f, third}}
             : UpdateFactors{scale, 0.01f, {0.05f, 0.1f, third, 1e-8f, 0.002f}};
}

Tensor on_device(std::span<const UpdateFactors> table, Device device) {
  const auto count = static_cast<std::int64_t>(table.size_bytes() / sizeof(float));
  return Tensor::from(std::span(reinterpret_cast<const float*>(table.data()),
                                static_cast<std::size_t>(count)),
                      {count})
      .to(device);
}

// Rows 0, 1, 2, 0, ... of lines of 16 elements.
Tensor rows_of(std::int64_t count, Device device) {
  std::vector<FactorRow> rows;
  for (std::int64_t line = 0; line * elements_per_row_number < count; ++line)
    rows.push_back(static_cast<FactorRow>(line % 3));
  const auto bytes = std::as_bytes(std::span(rows));
  return Tensor::from(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
                      {std::ssize(bytes)})
      .to(device);
}

// Three steps, so that states that were written are read.
Results update(Side& side, UpdateKernel kernel, std::int64_t count, DType rounded_type,
               Place place) {
  const Tensor parameter = side.parameters({count});
  const std::array<Tensor, 2> state = {side.parameters({count}, 0, 1),
                                       side.parameters({count}, 0, 1)};
  UpdatePass pass;
  pass.device = side.device();
  pass.kernel = kernel;
  pass.parameter = parameter.data<float>();
  pass.state[0] = state[0].data<float>();
  pass.state[1] = state[1].data<float>();
  pass.count = count;
  const std::array<UpdateFactors, 3> factors = {factors_of(kernel, 0.25f), factors_of(kernel, 0.5f),
                                                factors_of(kernel, -0.25f)};
  const Tensor table = on_device(factors, side.device()), rows = rows_of(count, side.device());
  if (place == Place::pass) {
    pass.factors = factors[0];
  } else {
    pass.factors.scale = std::numeric_limits<float>::quiet_NaN();
    pass.table = reinterpret_cast<const UpdateFactors*>(table.data<float>());
  }
  if (place == Place::rows)
    pass.rows = reinterpret_cast<const FactorRow*>(rows.data<std::uint8_t>());
  const Tensor rounded = Tensor::zeros({count}, rounded_type, side.device());
  if (rounded_type != DType::float32) {
    pass.rounded = rounded.raw();
    pass.rounded_type = rounded_type;
  }
  for (int i = 0; i < 3; ++i) {
    const Tensor gradient = side.parameters({count});
    pass.gradient = gradient.data<float>();
    side.backend().update(pass);
  }
  Results results = {{"parameter", parameter}, {"state 1", state[0]}, {"state 2", state[1]}};
  if (pass.rounded != nullptr)
    results.push_back({"rounded less parameter", less_rounded(rounded, parameter)});
  return results;
}

// Of parameters of 1, 10001, 20001, ... elements.
Results norms(Side& side, std::int64_t parameters) {
  std::vector<std::int64_t> segments;
  std::int64_t end = 0;
  for (std::int64_t k = 0; k < parameters; ++k) {
    segments.insert(segments.end(), {end, 1 + 10000 * k});
    end += (1 + 10000 * k + 15) / 16 * 16;
  }
  const Tensor w = side.parameters({end}), g = side.parameters({end});
  const Tensor found = Tensor::zeros({2 * parameters}, DType::float64, side.device());
  const Tensor places =
      Tensor::from(std::span<const std::int64_t>(segments), {std::ssize(segments)})
          .to(side.device());
  NormPass pass;
  pass.device = side.device();
  pass.parameter = w.data<float>();
  pass.gradient = g.data<float>();
  pass.segments = places.data<std::int64_t>();
  pass.parameters = parameters;
  const std::array<UpdateFactors, 3> factors = {UpdateFactors{0.25f, 0.01f}, {0.5f, 0}, {2, -0.5f}};
  const Tensor table = on_device(factors, side.device()), rows = rows_of(end, side.device());
  pass.factors = {-3, 0.5f};
  pass.norms = found.data<double>();
  side.backend().norms(pass);
  const Tensor with_factors = found.clone();
  pass.table = reinterpret_cast<const UpdateFactors*>(table.data<float>());
  pass.rows = reinterpret_cast<const FactorRow*>(rows.data<std::uint8_t>());
  side.backend().norms(pass);
  return {{"norms", with_factors}, {"norms of rows", found}};
}

// Three updates of parameters of 1, 10001, ... elements in rows of factors; the second one's is all
// zeros.
Results lamb(Side& side, std::int64_t parameters, DType rounded_type) {
  std::vector<std::int64_t> segments;
  std::vector<std::int32_t> parameter_of;
  std::int64_t end = 0;
  for (std::int64_t k = 0; k < parameters; ++k) {
    const std::int64_t count = 1 + 10000 * k;
    segments.insert(segments.end(), {end, count});
    end += (count + 15) / 16 * 16;
    parameter_of.resize(static_cast<std::size_t>(end / 16), static_cast<std::int32_t>(k));
  }
  const Tensor places =
      Tensor::from(std::span<const std::int64_t>(segments), {std::ssize(segments)})
          .to(side.device());
  const Tensor owners =
      Tensor::from(std::span<const std::int32_t>(parameter_of), {std::ssize(parameter_of)})
          .to(side.device());
  // Each parameter has one row.
  std::vector<std::uint8_t> numbers;
  for (const std::int32_t parameter : parameter_of)
    numbers.insert(numbers.end(), {static_cast<std::uint8_t>(parameter % 3), 0});
  const Tensor rows =
      Tensor::from(std::span<const std::uint8_t>(numbers), {std::ssize(numbers)}).to(side.device());
  const auto factors = [](float scale, float trust) {
    return UpdateFactors{scale, 0.01f, {0.05f, 0.1f, 0.01f, 1e-6f, 0.02f, 2, 50, trust}};
  };
  const std::array<UpdateFactors, 3> three = {factors(0.25f, 1), factors(0.5f, 0),
                                              factors(-0.25f, 0.5f)};
  const Tensor table = on_device(three, side.device());
  const Tensor w = side.parameters({end}), m = side.parameters({end}, 0, 1),
               v = side.parameters({end}, 0, 1);
  if (parameters > 1) w.slice(16, 16 + segments[3]).fill(0);
  const Tensor ratios = Tensor::zeros({parameters}, DType::float32, side.device());
  const Tensor rounded = Tensor::zeros({end}, rounded_type, side.device());
  const auto run = [&](const float* skip) {
    const Tensor g = side.parameters({end});
    LambPass first;
    first.device = side.device();
    first.parameter = w.data<float>();
    first.gradient = g.data<float>();
    first.state[0] = m.data<float>();
    first.state[1] = v.data<float>();
    first.segments = places.data<std::int64_t>();
    first.parameters = parameters;
    first.table = reinterpret_cast<const UpdateFactors*>(table.data<float>());
    first.rows = reinterpret_cast<const FactorRow*>(rows.data<std::uint8_t>());
    first.skip = skip;
    first.ratios = ratios.data<float>();
    side.backend().lamb(first);
    UpdatePass second;
    second.device = side.device();
    second.kernel = UpdateKernel::lamb;
    second.parameter = w.data<float>();
    second.state[0] = m.data<float>();
    second.state[1] = v.data<float>();
    second.count = end;
    second.table = first.table;
    second.rows = first.rows;
    second.skip = skip;
    second.ratios = first.ratios;
    second.parameter_of = owners.data<std::int32_t>();
    if (rounded_type != DType::float32) {
      second.rounded = rounded.raw();
      second.rounded_type = rounded_type;
    }
    side.backend().update(second);
  };
  for (int i = 0; i < 3; ++i) run(nullptr);
  const Tensor yes = Tensor::full({1}, 1, DType::float32, side.device());
  run(yes.data<float>());
  Results results = {{"parameter", w}, {"m", m}, {"v", v}, {"ratios", ratios}};
  if (rounded_type != DType::float32)
    results.push_back({"rounded less parameter", less_rounded(rounded, w)});
  return results;
}

// What hooks do with a gradient by its norm; the second of two is below the threshold.
Results scaled_by_norms(Side& side, std::int64_t count) {
  const Tensor w = side.parameters({count}), small = side.parameters({count}, 0, 1e-6f);
  const Tensor of_w = side.parameters({count}), of_small = side.parameters({count});
  const LarsRule rule{.gradient_scale = {0.25}, .threshold = 1e-2, .decay = 0.1, .eps = 1e-9};
  side.backend().lars(of_w, w, rule);
  side.backend().lars(of_small, small, rule);
  const Tensor clipped = side.parameters({count}), kept = side.parameters({count});
  side.backend().clip(clipped, {0.25}, 1e-3);
  side.backend().clip(kept, {0.25}, 1e6);
  return {{"lars", of_w}, {"lars below", of_small}, {"clipped", clipped}, {"not clipped", kept}};
}

}  // namespace

void add_optimizer_problems(Problems& problems) {
  for (const std::int64_t parameters : {1, 7}) {
    problems.push_back({fmt::format("update/norms of {} parameters", parameters),
                        [parameters](Side& side) { return norms(side, parameters); }});
    for (const DType rounded : {DType::float32, DType::bfloat16})
      problems.push_back(
          {fmt::format("update/lamb, {} parameters, kept as {}", parameters, name_of(rounded)),
           [parameters, rounded](Side& side) { return lamb(side, parameters, rounded); }});
  }
  for (const std::int64_t count : {1, 4099, 70003})
    problems.push_back({fmt::format("update/hooks, {} values", count),
                        [count](Side& side) { return scaled_by_norms(side, count); }});
  const std::array<std::pair<const char*, UpdateKernel>, 8> kernels = {
      {{"sgd", UpdateKernel::sgd},
       {"momentum_sgd", UpdateKernel::momentum_sgd},
       {"nesterov", UpdateKernel::nesterov},
       {"adam", UpdateKernel::adam},
       {"rmsprop", UpdateKernel::rmsprop},
       {"adagrad", UpdateKernel::adagrad},
       {"adadelta", UpdateKernel::adadelta},
       {"combine", UpdateKernel::combine}}};
  for (const auto& [name, kernel] : kernels) {
    problems.push_back(
        {fmt::format("update/{}, factors in several rows", name), [kernel = kernel](Side& side) {
           return update(side, kernel, 4099, DType::float32, Place::rows);
         }});
    for (const std::int64_t count : {1, 4099, 70003}) {
      for (const DType rounded : {DType::float32, DType::float16, DType::bfloat16})
        problems.push_back(
            {fmt::format("update/{}, {} values, kept as {}", name, count, name_of(rounded)),
             [kernel = kernel, count, rounded](Side& side) {
               return update(side, kernel, count, rounded, Place::pass);
             }});
      problems.push_back({fmt::format("update/{}, {} values, factors in a row", name, count),
                          [kernel = kernel, count](Side& side) {
                            return update(side, kernel, count, DType::float32, Place::row);
                          }});
    }
  }
}

}  // namespace tasuki::testing
