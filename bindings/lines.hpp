// The lines of text by which programs in other languages say what they want (tasuki.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nn/layer.hpp"
#include "optimizer/optimizer.hpp"
#include "tensor/shape.hpp"

namespace tasuki::bindings {

struct Network {
  std::unique_ptr<Layer> layer;  // not initialised
  Shape input;                   // of one example
};

// "mlp 3-64-64-1 tanh" or "resnet18 classes=10 image=3x32x32". Errors are of kind usage or config.
Network network_of(std::string_view line);

struct Settings {
  std::unique_ptr<Optimizer> optimizer;  // with its hyper-parameters and hooks
  std::uint64_t seed = 0;
  int threads = 1;
  std::string communicator = "auto";
  bool on_gpu = false;
};

// "adam alpha=0.003 seed=1". Errors are of kind usage.
Settings settings_of(std::string_view line);

}  // namespace tasuki::bindings
