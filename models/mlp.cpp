#include "models/mlp.hpp"

namespace tasuki {

MLP::MLP(std::int64_t n_in, std::int64_t units, std::int64_t n_out)
    : l1_(n_in, units, true, initializers::lecun_normal(), /*relu=*/true),
      l2_(units, units, true, initializers::lecun_normal(), /*relu=*/true),
      l3_(units, n_out) {
  add("l1", l1_);
  add("l2", l2_);
  add("l3", l3_);
}

Variable MLP::forward(const Variable& x) {
  return l3_(l2_(l1_(x)));
}

}  // namespace tasuki
