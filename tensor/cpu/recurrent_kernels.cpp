#include "tensor/cpu/recurrent_kernels.hpp"

#include "tensor/cpu/fast_math.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

TASUKI_VECTORIZE void lstm_gates(float* gates, const float* products, const float* c_before,
                                 float* c, float* h, std::int64_t units) {
  TASUKI_INDEPENDENT
  for (std::int64_t k = 0; k < units; ++k) {
    const float i = fast_sigmoid(gates[k] + products[k]);
    const float f = fast_sigmoid(gates[units + k] + products[units + k]);
    const float a = fast_tanh(gates[2 * units + k] + products[2 * units + k]);
    const float o = fast_sigmoid(gates[3 * units + k] + products[3 * units + k]);
    const float next = f * c_before[k] + i * a;
    gates[k] = i;
    gates[units + k] = f;
    gates[2 * units + k] = a;
    gates[3 * units + k] = o;
    c[k] = next;
    h[k] = o * fast_tanh(next);
  }
}

TASUKI_VECTORIZE void lstm_gates_backward(const float* gates, const float* c_before, const float* c,
                                          const float* dh, float* dc, float* dgates,
                                          std::int64_t units) {
  TASUKI_INDEPENDENT
  for (std::int64_t k = 0; k < units; ++k) {
    const float i = gates[k], f = gates[units + k], a = gates[2 * units + k],
                o = gates[3 * units + k];
    const float tanh_c = fast_tanh(c[k]);
    const float d = dc[k] + dh[k] * o * (1.0f - tanh_c * tanh_c);
    dgates[k] = d * a * i * (1.0f - i);
    dgates[units + k] = d * c_before[k] * f * (1.0f - f);
    dgates[2 * units + k] = d * i * (1.0f - a * a);
    dgates[3 * units + k] = dh[k] * tanh_c * o * (1.0f - o);
    dc[k] = d * f;
  }
}

TASUKI_VECTORIZE void gru_gates(float* gates, const float* products, const float* h_before,
                                float* recurrent_n, float* h, std::int64_t units) {
  TASUKI_INDEPENDENT
  for (std::int64_t k = 0; k < units; ++k) {
    const float r = fast_sigmoid(gates[k] + products[k]);
    const float z = fast_sigmoid(gates[units + k] + products[units + k]);
    const float from_h = products[2 * units + k];
    const float n = fast_tanh(gates[2 * units + k] + r * from_h);
    gates[k] = r;
    gates[units + k] = z;
    gates[2 * units + k] = n;
    recurrent_n[k] = from_h;
    h[k] = n + z * (h_before[k] - n);
  }
}

TASUKI_VECTORIZE void gru_gates_backward(const float* gates, const float* h_before,
                                         const float* recurrent_n, const float* dh, float* dgates,
                                         float* dproducts, float* carried, std::int64_t units) {
  TASUKI_INDEPENDENT
  for (std::int64_t k = 0; k < units; ++k) {
    const float r = gates[k], z = gates[units + k], n = gates[2 * units + k];
    const float dn = dh[k] * (1.0f - z) * (1.0f - n * n);
    const float dr = dn * recurrent_n[k] * r * (1.0f - r);
    const float dz = dh[k] * (h_before[k] - n) * z * (1.0f - z);
    dgates[k] = dproducts[k] = dr;
    dgates[units + k] = dproducts[units + k] = dz;
    dgates[2 * units + k] = dn;
    dproducts[2 * units + k] = dn * r;
    carried[k] = dh[k] * z;
  }
}

TASUKI_VECTORIZE void add_rows(const float* a, const float* b, float* to, std::int64_t count) {
  TASUKI_INDEPENDENT
  for (std::int64_t k = 0; k < count; ++k) to[k] = a[k] + b[k];
}

}  // namespace tasuki
