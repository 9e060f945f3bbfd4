// GoogLeNet with batch normalisation (Ioffe and Szegedy, "Batch normalization", arXiv 1502.03167).
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// Chainer's GoogLeNetBN, with its keys: conv1, norm1, conv2, norm2, ten inception modules inc3a ...
// inc5b, out; and two auxiliary classifiers (conva ... outa, convb ... outb) that branch off after
// inc4a and inc4d and help gradients into the lower layers.
class GoogLeNetBn : public Layer {
 public:
  // Made for 3 x 224 x 224; images have at least 64 pixels along each side.
  explicit GoogLeNetBn(std::int64_t classes = 1000, const Shape& image = {3, 224, 224});
  ~GoogLeNetBn() override;

  struct Scores {
    Variable main, first, second;  // first, second: of the auxiliary classifiers
  };
  Scores all_scores(const Variable& x);
  // The main classifier's scores; the auxiliary ones are not computed.
  Variable forward(const Variable& x) override;

  // Weight of each auxiliary loss; the main loss has weight 1.
  static constexpr float auxiliary_weight = 0.3f;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tasuki
