// The update rules as a table: names, hyper-parameters, states and formulae are Chainer's. A new
// rule is one row here and one loop in each backend.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

// Chainer's name, its default, and the values allowed: low <= value < high.
struct Hyperparameter {
  std::string name;
  double initial = 0;
  double low = 0, high = 0;
};

// The factors of one step, as in UpdateStep.
struct RuleFactors {
  double rate = 0;
  std::array<double, 4> constants{};
};

struct OptimizerRule {
  std::string name;   // as in --optimizer: "momentum_sgd"
  std::string title;  // Chainer's class: "MomentumSGD"
  UpdateRule kernel;
  std::string rate_name;  // the hyper-parameter that schedules change; empty when there is none
  std::vector<Hyperparameter> hyperparameters;
  std::vector<std::string> states;  // one array each, zeros at first
  // Factors of update number t (1, 2, ...) for the hyper-parameters `h`, in the table's order.
  RuleFactors (*factors)(const std::vector<double>& h, std::int64_t t);
  // What Chainer calls the learning rate of update number t: Adam's alpha_t (below), the
  // hyper-parameter itself otherwise. Null where there is none.
  double (*learning_rate)(const std::vector<double>& h, std::int64_t t);
};

// All rules. SGD: g is the gradient, p the parameter.
//   SGD          p -= lr g
//   MomentumSGD  v = momentum v - lr g;  p += v
//   NesterovAG   v = momentum v - lr g;  p += momentum^2 v - (1 + momentum) lr g, with the new v as
//   in
//                Chainer (Bengio et al., arXiv 1212.0901, equation 7, has the old one)
//   Adam, AdamW  m += (1 - beta1)(g - m);  v += (1 - beta2)(g^2 - v);
//                p -= eta (alpha_t m / (sqrt(v) + eps) + weight_decay_rate p),
//                alpha_t = alpha sqrt(1 - beta2^t) / (1 - beta1^t)
//                (Kingma and Ba, arXiv 1412.6980, end of section 2; decay: Loshchilov and Hutter,
//                arXiv 1711.05101, not multiplied by alpha)
//   RMSprop      ms += (1 - alpha)(g^2 - ms);  p -= lr g / (sqrt(ms) + eps)
//   AdaGrad      h += g^2;  p -= lr g / (sqrt(h) + eps)
//   AdaDelta     msg += (1 - rho)(g^2 - msg);  dx = sqrt((msdx + eps) / (msg + eps)) g;
//                msdx += (1 - rho)(dx^2 - msdx);  p -= dx   (Zeiler, arXiv 1212.5701)
const std::vector<OptimizerRule>& optimizer_rules();

}  // namespace tasuki
