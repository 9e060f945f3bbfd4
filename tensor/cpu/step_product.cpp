#include "tasuki/tensor/cpu/step_product.hpp"

#include <algorithm>
#include <utility>

namespace tasuki {

StepProduct::StepProduct(Tensor w, Direction direction, std::int64_t most)
    : w_(std::move(w)), direction_(direction), most_(most) {}

std::string StepProduct::text(std::int64_t rows) const {
  return fmt::format("a product of {} rows with weights of {}", rows, w_.shape().text());
}

std::int64_t StepProduct::padded(std::int64_t rows) const {
  constexpr std::int64_t block = 16;
  return std::min(most_, (rows + block - 1) / block * block);
}

StepProduct::Step StepProduct::make(std::int64_t rows, bool has_bias) const {
  const std::int64_t outputs = w_.shape()[0], inputs = w_.shape()[1];
  const bool is_forward = direction_ == Direction::forward;
  OperationKey key(is_forward ? OperationKey::recurrent : OperationKey::recurrent_data);
  key.add(rows).add(outputs).add(inputs).add(has_bias);
  Step step;
  step.operation = cached_operation(key, [&] {
    const dnnl::memory::desc x = plain_desc({rows, inputs}), y = plain_desc({rows, outputs});
    const dnnl::memory::desc b = has_bias ? plain_desc({outputs}) : dnnl::memory::desc();
    const dnnl::inner_product_forward::desc desc(dnnl::prop_kind::forward_training, x,
                                                 any_desc(w_.shape()), b, y);
    const dnnl::inner_product_forward::primitive_desc forward(desc, scratchpad_attr(),
                                                              dnnl_engine());
    if (is_forward)
      return DnnlOperation(dnnl::inner_product_forward(forward),
                           {{DNNL_ARG_SRC, forward.src_desc()},
                            {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                            {DNNL_ARG_BIAS, forward.bias_desc()},
                            {DNNL_ARG_DST, forward.dst_desc()},
                            {DNNL_ARG_SCRATCHPAD, forward.scratchpad_desc()}});
    const dnnl::inner_product_backward_data::primitive_desc backward(
        {x, any_desc(w_.shape()), y}, scratchpad_attr(), dnnl_engine(), forward);
    return DnnlOperation(dnnl::inner_product_backward_data(backward),
                         {{DNNL_ARG_DIFF_DST, backward.diff_dst_desc()},
                          {DNNL_ARG_WEIGHTS, backward.weights_desc()},
                          {DNNL_ARG_DIFF_SRC, backward.diff_src_desc()},
                          {DNNL_ARG_SCRATCHPAD, backward.scratchpad_desc()}});
  });
  // Steps of different sizes as a rule read weights in one order.
  const dnnl::memory::desc& order = step.operation->desc(DNNL_ARG_WEIGHTS);
  for (const auto& [other_rows, other] : steps_)
    if (other.operation->desc(DNNL_ARG_WEIGHTS) == order) step.weights = other.weights;
  if (!step.weights) step.weights = step.operation->fit(DNNL_ARG_WEIGHTS, w_);
  return step;
}

void StepProduct::run(std::int64_t count, const float* x, float* y, const float* b) {
  const std::int64_t rows = padded(count);
  with_dnnl([&] { return text(rows); },
            [&] {
              auto found = steps_.find(rows);
              if (found == steps_.end())
                found = steps_.emplace(rows, make(rows, b != nullptr)).first;
              const Step& step = found->second;
              if (direction_ == Direction::forward)
                step.operation->run({{DNNL_ARG_SRC, x},
                                     {DNNL_ARG_WEIGHTS, step.weights.raw()},
                                     {DNNL_ARG_BIAS, b},
                                     {DNNL_ARG_DST, y}});
              else
                step.operation->run({{DNNL_ARG_DIFF_DST, x},
                                     {DNNL_ARG_WEIGHTS, step.weights.raw()},
                                     {DNNL_ARG_DIFF_SRC, y}});
            });
}

}  // namespace tasuki
