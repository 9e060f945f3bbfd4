#include "nn/normalization.hpp"

#include "nn/functions/normalization.hpp"

namespace tasuki {
namespace {

void set_sizes(Parameter& gamma, Parameter& beta, std::int64_t size) {
  for (Parameter* const each : {&gamma, &beta})
    if (!each->has_shape()) each->set_shape({size});
}

}  // namespace

LayerNorm::LayerNorm(std::optional<std::int64_t> size, float eps)
    : eps_(eps),
      gamma_(size ? add_parameter("gamma", {*size}, initializers::one())
                  : add_unshaped_parameter("gamma", {0}, initializers::one())),
      beta_(size ? add_parameter("beta", {*size}, initializers::zero())
                 : add_unshaped_parameter("beta", {0}, initializers::zero())) {}

Variable LayerNorm::forward(const Variable& x) {
  set_sizes(gamma_, beta_, x.shape().count_per_item());
  return layer_norm(x, gamma_, beta_, eps_);
}

GroupNorm::GroupNorm(std::int64_t groups, std::optional<std::int64_t> channels, float eps)
    : groups_(groups),
      eps_(eps),
      gamma_(channels ? add_parameter("gamma", {*channels}, initializers::one())
                      : add_unshaped_parameter("gamma", {0}, initializers::one())),
      beta_(channels ? add_parameter("beta", {*channels}, initializers::zero())
                     : add_unshaped_parameter("beta", {0}, initializers::zero())) {}

Variable GroupNorm::forward(const Variable& x) {
  TASUKI_CHECK(x.shape().rank() >= 2, "GroupNorm: expected N x C x ..., found {}",
               x.shape().text());
  set_sizes(gamma_, beta_, x.shape()[1]);
  return group_norm(x, groups_, gamma_, beta_, eps_);
}

}  // namespace tasuki
