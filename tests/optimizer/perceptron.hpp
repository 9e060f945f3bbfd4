// A network whose parameters are used once, twice, by some ranks and by none, with batch
// normalisation, and random examples for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/philox.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/normalization.hpp"

namespace tasuki::testing {

struct PerceptronSizes {
  std::int64_t inputs, hidden, classes;
  int further = 0;  // layers of hidden x hidden weights
};

struct PerceptronExamples {
  Tensor x, t;  // count x inputs, float32; count, int32
};

// `l2` is used twice, `sometimes` where loss() is told so, `never` nowhere.
class Perceptron : public Module {
 public:
  using Module::add;
  explicit Perceptron(const PerceptronSizes& sizes)
      : sizes_(sizes),
        l1_(sizes.inputs, sizes.hidden),
        norm_(sizes.hidden),
        l2_(sizes.hidden, sizes.hidden),
        sometimes_(sizes.hidden, sizes.hidden),
        l3_(sizes.hidden, sizes.classes),
        never_(sizes.hidden, 30) {
    add("l1", l1_);
    add("norm", norm_);
    add("l2", l2_);
    add("sometimes", sometimes_);
    add("l3", l3_);
    add("never", never_);
    for (int i = 0; i < sizes.further; ++i) {
      further_.push_back(std::make_unique<Linear>(sizes.hidden, sizes.hidden));
      add("further" + std::to_string(i), *further_.back());
    }
    initialize(1);
    // No norm is 0.
    for (const auto& [path, parameter] : parameters())
      if (parameter->shape().rank() == 1) parameter->value().fill(0.1);
  }

  Variable loss(const PerceptronExamples& examples, bool uses_all) {
    Variable h = functions::relu(norm_(l1_(Variable(examples.x))));
    h = functions::relu(l2_(functions::relu(l2_(h))));
    for (const auto& layer : further_) h = functions::relu((*layer)(h));
    if (uses_all) h = functions::relu(sometimes_(h));
    return functions::softmax_cross_entropy(l3_(h), examples.t);
  }

  // Those of a rank in a step.
  PerceptronExamples examples(std::int64_t count, std::uint64_t step, std::uint64_t rank) const {
    RandomStream random(step, rank);
    const PerceptronExamples made{Tensor::empty({count, sizes_.inputs}),
                                  Tensor::empty({count}, DType::int32)};
    for (float& value : made.x.span<float>()) value = random.normal();
    for (std::int32_t& label : made.t.span<std::int32_t>())
      label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(sizes_.classes)));
    return made;
  }

 private:
  PerceptronSizes sizes_;
  Linear l1_;
  BatchNorm norm_;
  Linear l2_, sometimes_, l3_, never_;
  std::vector<std::unique_ptr<Linear>> further_;
};

}  // namespace tasuki::testing
