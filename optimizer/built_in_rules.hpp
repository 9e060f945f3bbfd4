// The built-in rules: Chainer's and LAMB, with fused kernels in each backend.
#pragma once

#include <vector>

#include "optimizer/update_rule.hpp"

namespace tasuki {

// A rule for which every backend has a kernel, which updates a whole arena at once
// (Backend::update). apply() and apply_on_gpu() call the kernel for rules that are built on this
// one; for LAMB they are a usage error, because its updates depend on whole parameters.
class KernelRule : public UpdateRule {
 public:
  virtual UpdateKernel kernel() const = 0;
  void apply(const RuleRange& range) const final;
  bool has_gpu_kernel() const final { return true; }
  void apply_on_gpu(const RuleArena& arena) const final;

 private:
  const KernelRule* as_kernel_rule() const final { return this; }
};

// g is the gradient, p the parameter.
//   SGD          p -= lr g
//   MomentumSGD  v = momentum v - lr g;  p += v
//   NesterovAG   v = momentum v - lr g;  p += momentum^2 v - (1 + momentum) lr g, with the new v as
//                in Chainer (Bengio et al., arXiv 1212.0901, equation 7, has the old one)
//   Adam, AdamW  m += (1 - beta1)(g - m);  v += (1 - beta2)(g^2 - v);
//                p -= eta (alpha_t m / (sqrt(v) + eps) + weight_decay_rate p),
//                alpha_t = alpha sqrt(1 - beta2^t) / (1 - beta1^t)
//                (Kingma and Ba, arXiv 1412.6980, end of section 2; decay: Loshchilov and Hutter,
//                arXiv 1711.05101, not multiplied by alpha)
//   LAMB         m and v as in Adam, m' = m / (1 - beta1^t), v' = v / (1 - beta2^t);
//                r = m' / (sqrt(v') + eps) + weight_decay_rate p;  p -= alpha (|p| / |r|)^trust r
//                with L2 norms of the whole parameter; their ratio is 1 if one of them is 0 (You et
//                al., arXiv 1904.00962, algorithm 2 with phi(x) = x and no clipping); trust is 1,
//                or 0 for groups without it (usually biases and parameters of normalisation layers)
//   RMSprop      ms += (1 - alpha)(g^2 - ms);  p -= lr g / (sqrt(ms) + eps)
//   AdaGrad      h += g^2;  p -= lr g / (sqrt(h) + eps)
//   AdaDelta     msg += (1 - rho)(g^2 - msg);  dx = sqrt((msdx + eps) / (msg + eps)) g;
//                msdx += (1 - rho)(dx^2 - msdx);  p -= dx   (Zeiler, arXiv 1212.5701)
std::vector<NamedRule> built_in_rules();

}  // namespace tasuki
