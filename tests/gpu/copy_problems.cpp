#include <array>

#include "problems.hpp"

namespace tasuki::testing {
namespace {

// Values on the host that all types have room for; integers are cut off.
Tensor values_of_type(Side& side, DType type, std::int64_t count, float most) {
  return side.parameters({count}, 0, most).to(Device::cpu()).to(type);
}

// In each direction, and of elements that lie at no multiple of the widest loads.
Results conversion(Side& side, DType from, DType to, std::int64_t count, float most) {
  const Tensor source = values_of_type(side, from, count, most);
  const Tensor resident = source.to(side.device());
  const Tensor uploaded = Tensor::empty({count}, to, side.device());
  uploaded.copy_from(source);
  const Tensor downloaded = Tensor::empty({count}, to);
  downloaded.copy_from(resident);
  const Tensor shifted = Tensor::zeros({count}, to, side.device());
  shifted.slice(1, count).copy_from(resident.slice(1, count));
  const std::string what = fmt::format("{} as {}, ", count, name_of(to));
  return {{what + "uploaded", uploaded},
          {what + "on the device", resident.to(to)},
          {what + "downloaded", downloaded},
          {what + "but the first", shifted}};
}

Results conversions(Side& side, DType from, std::span<const DType> to, float most,
                    std::initializer_list<std::int64_t> counts = {1, 1003}) {
  Results all;
  for (const DType type : to)
    for (const std::int64_t count : counts)
      for (Result& result : conversion(side, from, type, count, most))
        all.push_back(std::move(result));
  return all;
}

Results filled(Side& side, DType type) {
  const Tensor zeros = Tensor::full({133}, 5, type, side.device());
  zeros.fill(0);
  const Tensor part = Tensor::full({40003}, 1, type, side.device());
  part.slice(3, 39000).fill(200);
  return {{"zeros", zeros}, {"part", part}};
}

// A result that may lie in the backend's own order, as everything else.
Results rearranged(Side& side) {
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  const Tensor x = side.activations({2, 8, 9, 7}), w = side.weights({40, 8, 3, 3});
  const Tensor y = side.backend().conv2d(x, w, {}, same);
  const Tensor written = side.backend().conv2d(x, w, {}, same);
  written.copy_from(side.activations(y.shape()));
  const Tensor from_host = side.backend().conv2d(x, w, {}, same);
  from_host.copy_from(side.activations(y.shape()).to(Device::cpu()));
  const Tensor zeros = side.backend().conv2d(x, w, {}, same);
  zeros.fill(0);
  return {{"plain", y.plain()},
          {"cloned", y.clone()},
          {"on the host", y.to(Device::cpu())},
          {"as float64", y.to(DType::float64)},
          {"written", written.plain()},
          {"written from the host", from_host.plain()},
          {"zeros", zeros.plain()}};
}

}  // namespace

void add_copy_problems(Problems& problems) {
  for (const DType type : every_type) {
    problems.push_back({fmt::format("copy/{}", name_of(type)),
                        [=](Side& side) { return conversions(side, type, every_type, 250); }});
    problems.push_back({fmt::format("copy/fill {}", name_of(type)),
                        [=](Side& side) { return filled(side, type); }});
  }
  // Subnormal numbers of float16.
  for (const DType type : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    problems.push_back({fmt::format("copy/tiny {}", name_of(type)), [=](Side& side) {
                          constexpr std::array<DType, 2> to = {DType::float16, DType::float32};
                          return conversions(side, type, to, 1e-5f);
                        }});
  for (const DType type : {DType::float16, DType::int32})
    problems.push_back({fmt::format("copy/large {}", name_of(type)), [=](Side& side) {
                          constexpr std::array<DType, 2> to = {DType::bfloat16, DType::float64};
                          return conversions(side, type, to, 250, {140003});
                        }});
  problems.push_back({"copy/layouts", rearranged});
}

}  // namespace tasuki::testing
