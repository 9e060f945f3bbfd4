#include "tensor/cpu/step_product.hpp"

#include <algorithm>
#include <utility>

#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"

namespace tasuki {

namespace {

// A plain matrix as its columns.
Tensor transposed(const Tensor& w) {
  const std::int64_t rows = w.shape()[0], columns = w.shape()[1];
  const dnnl::memory::desc desc({columns, rows}, element_type(desc_of(w)),
                                dnnl::memory::dims{1, columns});
  return {w.storage(), w.offset(), Shape{columns, rows}, w.dtype(), layout_of(desc)};
}

}  // namespace

StepProduct::StepProduct(const Tensor& w, Direction direction, std::int64_t most)
    : type_(w.dtype()), most_(most) {
  // Products of float32 where the processor has no others.
  const Tensor weights = is_native(type_) ? w : in_float32(w);
  w_ = direction == Direction::forward ? weights : transposed(weights);
}

std::string StepProduct::text(std::int64_t rows) const {
  return fmt::format("a product of {} rows with weights of {}", rows, w_.shape().text());
}

std::int64_t StepProduct::padded(std::int64_t rows) const {
  constexpr std::int64_t block = 16;
  return std::min(most_, (rows + block - 1) / block * block);
}

StepProduct::Step StepProduct::make(std::int64_t rows, bool has_bias) const {
  const std::int64_t outputs = w_.shape()[0], inputs = w_.shape()[1];
  OperationKey key(OperationKey::recurrent);
  key.add(rows).add(outputs).add(inputs).add(has_bias);
  key.add(static_cast<std::int64_t>(w_.dtype()));
  Step step;
  step.operation = cached_operation(key, [&] {
    const dnnl::memory::desc b = has_bias ? plain_desc({outputs}) : dnnl::memory::desc();
    const auto pd = describe<dnnl::inner_product_forward>(
        dnnl::prop_kind::forward_training, plain_desc({rows, inputs}, w_.dtype()),
        any_desc(w_.shape(), w_.dtype()), b, plain_desc({rows, outputs}));
    return DnnlOperation(dnnl::inner_product_forward(pd),
                         {{DNNL_ARG_SRC, pd.src_desc()},
                          {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                          {DNNL_ARG_BIAS, pd.bias_desc()},
                          {DNNL_ARG_DST, pd.dst_desc()},
                          {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
  });
  // Steps of different sizes as a rule read weights in one order.
  const dnnl::memory::desc& order = step.operation->desc(DNNL_ARG_WEIGHTS);
  for (const auto& [other_rows, other] : steps_)
    if (other.operation->desc(DNNL_ARG_WEIGHTS) == order) step.weights = other.weights;
  if (!step.weights) step.weights = step.operation->fit(DNNL_ARG_WEIGHTS, w_);
  return step;
}

void StepProduct::run(std::int64_t count, const Tensor& x, float* y, const float* b) {
  const std::int64_t rows = padded(count);
  TASUKI_CHECK(x.dtype() == type_ && x.shape()[0] >= rows, "{}: {} rows of {}", text(rows),
               x.shape()[0], name_of(x.dtype()));
  const Tensor factor = w_.dtype() == type_ ? x : in_float32(x.slice(0, rows));
  with_dnnl([&] { return text(rows); },
            [&] {
              auto found = steps_.find(rows);
              if (found == steps_.end())
                found = steps_.emplace(rows, make(rows, b != nullptr)).first;
              const Step& step = found->second;
              step.operation->run({{DNNL_ARG_SRC, factor.raw()},
                                   {DNNL_ARG_WEIGHTS, step.weights.raw()},
                                   {DNNL_ARG_BIAS, b},
                                   {DNNL_ARG_DST, y}});
            });
}

}  // namespace tasuki
