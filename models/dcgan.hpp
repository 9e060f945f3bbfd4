// DCGAN (Radford et al., "Unsupervised representation learning with deep convolutional generative
// adversarial networks", arXiv 1511.06434), as ChainerMN's example has it.
#pragma once

#include <cstdint>
#include <string>

#include "nn/layer.hpp"
#include "nn/sequential.hpp"

namespace tasuki {

struct DcganSettings {
  Shape image = {3, 32, 32};    // channels x side x side; see dcgan_stages()
  std::int64_t hidden = 100;    // size of the vector from which an image is generated
  std::int64_t channels = 512;  // at the smallest size inside the network; halved with each
                                // doubling
  double weight_deviation = 0.02;
};

// How often images double from 4 .. 7 pixels a side to `side` pixels: 3 times to 32, twice from 7
// to 28. A side other than (4 .. 7) * 2^n with n >= 1 is a usage error on all ranks.
int dcgan_stages(std::int64_t side);

// N x hidden, in [-1, 1), to N x (image) in (0, 1). With 3 stages, Chainer's names: l0, bn0, dc1 to
// dc4, bn1 to bn3.
class DcganGenerator : public Sequential {
 public:
  explicit DcganGenerator(const DcganSettings& settings);
};

// N x (image) to N x 1 scores, above 0 for images that look real. Each layer but the last adds
// noise with a deviation of 0.2 in training. With 3 stages, Chainer's names: c0_0, c0_1, bn0_1,
// c1_0, bn1_0, ..., c3_0, bn3_0, l4.
class DcganDiscriminator : public Sequential {
 public:
  explicit DcganDiscriminator(const DcganSettings& settings);
};

class Dcgan : public Module {
 public:
  explicit Dcgan(const DcganSettings& settings);
  DcganGenerator gen;
  DcganDiscriminator dis;
};

// The losses of one batch, each a mean. The discriminator's is for telling `real` images (1) from
// as many generated ones (0): softplus(-y_real) + softplus(y_fake). The generator's is for images
// that should pass for real: softplus(-y_fake). The discriminator sees each image once. Images are
// generated from uniform_noise().
//   Each model learns from its own loss, with the other's parameters as constants: give each its
//   own optimizer (JointUpdater).
struct DcganLosses {
  Variable dis, gen;
};
DcganLosses dcgan_losses(Dcgan& gan, const DcganSettings& settings, const Tensor& real);

}  // namespace tasuki
