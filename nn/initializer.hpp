// Initial values of parameters. Each is a function of (seed, stream), where the stream is the hash
// of the parameter's path; it does not depend on ranks or other parameters.
#pragma once

#include <cstdint>
#include <functional>

#include "tensor/tensor.hpp"

namespace tasuki {

// Fills a parameter's value.
using Initializer =
    std::function<void(const Tensor& value, std::uint64_t seed, std::uint64_t stream)>;

// Chainer's initializers, with its names and defaults. For weights of O x I x KH x KW (O x I),
// fan_in = I * KH * KW and fan_out = O * KH * KW.
namespace initializers {

Initializer constant(double value);
Initializer zero();
Initializer one();

// Normal with standard deviation `scale`; uniform in [-scale, scale).
Initializer normal(double scale = 0.05);
Initializer uniform(double scale = 0.05);

// Variance scale^2 / fan_in (LeCun et al., "Efficient BackProp", 1998): the default of weights.
Initializer lecun_normal(double scale = 1);
Initializer lecun_uniform(double scale = 1);
// Variance scale^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, AISTATS 2010).
Initializer glorot_normal(double scale = 1);
Initializer glorot_uniform(double scale = 1);
// Variance scale^2 * 2 / fan_in (He et al., arXiv 1502.01852).
Initializer he_normal(double scale = 1);
Initializer he_uniform(double scale = 1);

// Rows (columns, if there are more rows) of the O x (I * KH * KW) matrix are orthogonal, each of
// length `scale` (Saxe et al., arXiv 1312.6120).
Initializer orthogonal(double scale = 1.1);

}  // namespace initializers
}  // namespace tasuki
