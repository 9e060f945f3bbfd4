#include "nn/initializer.hpp"

#include <cmath>
#include <vector>

#include "core/philox.hpp"

namespace tasuki::initializers {
namespace {

struct Fans {
  double in, out;
};

Fans fans_of(const Shape& shape) {
  TASUKI_CHECK(shape.rank() >= 2 && shape.count() > 0,
               "an initializer that scales by fan-in needs weights of two or more axes, not {}",
               shape.text());
  const auto count = static_cast<double>(shape.count());
  return {count / static_cast<double>(shape[0]), count / static_cast<double>(shape[1])};
}

// Fills on the host, element by element, then copies to the parameter's device.
template <class Draw>
void draw_all(const Tensor& value, const Draw& draw) {
  const Tensor host = Tensor::empty(value.shape());
  for (float& element : host.span<float>()) element = draw();
  value.copy_from(host);
}

void draw_normal(const Tensor& value, RandomStream stream, double deviation) {
  const auto scale = static_cast<float>(deviation);
  draw_all(value, [&] { return scale * stream.normal(); });
}

void draw_uniform(const Tensor& value, RandomStream stream, double limit) {
  const auto scale = static_cast<float>(limit);
  draw_all(value, [&] { return scale * (2 * stream.uniform() - 1); });
}

// The variance of a weight, from its fans.
template <class Variance>
Initializer scaled_normal(double scale, Variance variance) {
  return [=](const Tensor& value, std::uint64_t seed, std::uint64_t stream) {
    draw_normal(value, RandomStream(seed, stream),
                scale * std::sqrt(variance(fans_of(value.shape()))));
  };
}
// A uniform distribution in [-a, a) has variance a^2 / 3.
template <class Variance>
Initializer scaled_uniform(double scale, Variance variance) {
  return [=](const Tensor& value, std::uint64_t seed, std::uint64_t stream) {
    draw_uniform(value, RandomStream(seed, stream),
                 scale * std::sqrt(3 * variance(fans_of(value.shape()))));
  };
}

double lecun(const Fans& fans) {
  return 1 / fans.in;
}
double glorot(const Fans& fans) {
  return 2 / (fans.in + fans.out);
}
double he(const Fans& fans) {
  return 2 / fans.in;
}

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// `vectors` orthonormal vectors of `size` elements: Gram and Schmidt on normal numbers, twice,
// because once leaves rounding errors of nearly parallel vectors.
std::vector<double> orthonormal(std::size_t vectors, std::size_t size, RandomStream stream) {
  std::vector<double> q(vectors * size);
  for (double& element : q) element = static_cast<double>(stream.normal());
  for (std::size_t i = 0; i < vectors; ++i) {
    double* const v = &q[i * size];
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        const double* const u = &q[j * size];
        const double along = dot(u, v, size);
        for (std::size_t k = 0; k < size; ++k) v[k] -= along * u[k];
      }
      const double length = std::sqrt(dot(v, v, size));
      for (std::size_t k = 0; k < size; ++k) v[k] /= length;
    }
  }
  return q;
}

}  // namespace

Initializer constant(double constant) {
  return [=](const Tensor& value, std::uint64_t, std::uint64_t) { value.fill(constant); };
}
Initializer zero() {
  return constant(0);
}
Initializer one() {
  return constant(1);
}

Initializer normal(double scale) {
  return [=](const Tensor& value, std::uint64_t seed, std::uint64_t stream) {
    draw_normal(value, RandomStream(seed, stream), scale);
  };
}
Initializer uniform(double scale) {
  return [=](const Tensor& value, std::uint64_t seed, std::uint64_t stream) {
    draw_uniform(value, RandomStream(seed, stream), scale);
  };
}

Initializer lecun_normal(double scale) {
  return scaled_normal(scale, lecun);
}
Initializer lecun_uniform(double scale) {
  return scaled_uniform(scale, lecun);
}
Initializer glorot_normal(double scale) {
  return scaled_normal(scale, glorot);
}
Initializer glorot_uniform(double scale) {
  return scaled_uniform(scale, glorot);
}
Initializer he_normal(double scale) {
  return scaled_normal(scale, he);
}
Initializer he_uniform(double scale) {
  return scaled_uniform(scale, he);
}

Initializer orthogonal(double scale) {
  return [=](const Tensor& value, std::uint64_t seed, std::uint64_t stream) {
    const Shape& shape = value.shape();
    TASUKI_CHECK(shape.rank() >= 2 && shape.count() > 0,
                 "orthogonal weights need two or more axes, not {}", shape.text());
    const auto rows = static_cast<std::size_t>(shape[0]);
    const auto columns = static_cast<std::size_t>(shape.count_per_item());
    const bool by_rows = rows <= columns;
    const std::vector<double> q =
        orthonormal(by_rows ? rows : columns, by_rows ? columns : rows, RandomStream(seed, stream));
    const Tensor host = Tensor::empty(shape);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        host.data<float>()[i * columns + j] =
            static_cast<float>(scale * (by_rows ? q[i * columns + j] : q[j * rows + i]));
    value.copy_from(host);
  };
}

}  // namespace tasuki::initializers
