#include "models/googlenet_bn.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "models/conv_block.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/images.hpp"
#include "nn/recompute.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

std::unique_ptr<Conv2d> convolution(std::int64_t from, std::int64_t to, std::int64_t kernel,
                                    std::int64_t stride = 1) {
  return std::make_unique<Conv2d>(from, to, kernel, stride, /*pad=*/kernel / 2, /*bias=*/false);
}

// Chainer's InceptionBN: paths of a 1 x 1 convolution, of a 3 x 3, of two 3 x 3 and of a 3 x 3
// pooling, joined along the channels. All but the first begin with a projection (1 x 1).
class Inception final : public Layer {
 public:
  enum class Pool { max, average };
  struct Channels {
    std::int64_t out1;  // 0: no such path
    std::int64_t proj3, out3, proj33, out33;
    Pool pool;
    std::int64_t pool_projection;  // 0: the pooling's result as it is
    std::int64_t stride = 1;       // of the last convolution of each path, and of the pooling
  };

  Inception(std::int64_t channels_in, const Channels& c)
      : channels_out(c.out1 + c.out3 + c.out33 +
                     (c.pool_projection > 0 ? c.pool_projection : channels_in)),
        settings_(c) {
    if (c.out1 > 0) append(one_, "conv1", channels_in, c.out1, 1, 1);
    append(three_, "proj3", channels_in, c.proj3, 1, 1);
    append(three_, "conv3", c.proj3, c.out3, 3, c.stride);
    append(twice_three_, "proj33", channels_in, c.proj33, 1, 1);
    append(twice_three_, "conv33a", c.proj33, c.out33, 3, 1);
    append(twice_three_, "conv33b", c.out33, c.out33, 3, c.stride);
    if (c.pool_projection > 0) append(pooled_, "poolp", channels_in, c.pool_projection, 1, 1);
  }

  Variable forward(const Variable& x) override {
    std::vector<Variable> results;
    if (!one_.empty()) results.push_back(run(one_, x));
    results.push_back(run(three_, x));
    results.push_back(run(twice_three_, x));
    const std::int64_t stride = settings_.stride;
    results.push_back(run(pooled_, settings_.pool == Pool::max
                                       ? F::max_pooling_2d(x, 3, stride, 1, /*cover_all=*/false)
                                       : F::average_pooling_2d(x, 3, stride, 1)));
    return F::concat(results);
  }

  const std::int64_t channels_out;

 private:
  struct Step {
    std::unique_ptr<Conv2d> convolution;
    std::unique_ptr<BatchNorm> norm;
  };
  using Path = std::vector<Step>;

  void append(Path& path, const std::string& name, std::int64_t from, std::int64_t to,
              std::int64_t kernel, std::int64_t stride) {
    path.push_back({convolution(from, to, kernel, stride), batch_norm_relu(to)});
    add(name, *path.back().convolution);
    add(name + "n", *path.back().norm);
  }

  static Variable run(const Path& path, Variable x) {
    for (const auto& [convolution, norm] : path) x = (*norm)((*convolution)(x));
    return x;
  }

  Channels settings_;
  Path one_, three_, twice_three_, pooled_;
};

using Channels = Inception::Channels;
using enum Inception::Pool;

const std::vector<std::pair<std::string, Channels>> modules_until_4a = {
    {"inc3a", {64, 64, 64, 64, 96, average, 32}},
    {"inc3b", {64, 64, 96, 64, 96, average, 64}},
    {"inc3c", {0, 128, 160, 64, 96, max, 0, 2}},
    {"inc4a", {224, 64, 96, 96, 128, average, 128}}};
const std::vector<std::pair<std::string, Channels>> modules_until_4d = {
    {"inc4b", {192, 96, 128, 96, 128, average, 128}},
    {"inc4c", {160, 128, 160, 128, 160, average, 128}},
    {"inc4d", {96, 128, 192, 160, 192, average, 128}}};
const std::vector<std::pair<std::string, Channels>> modules_until_5b = {
    {"inc4e", {0, 128, 192, 192, 256, max, 0, 2}},
    {"inc5a", {352, 192, 320, 160, 224, average, 128}},
    {"inc5b", {352, 192, 320, 192, 224, max, 128}}};

// Pixels along an axis.
struct Pixels {
  explicit Pixels(std::int64_t image) {
    const std::int64_t after_conv1 = (image + 1) / 2;
    // Chainer's poolings may reach over the far edge; those of inception modules do not.
    const std::int64_t at_3a = (after_conv1 / 2 + 1) / 2 + 1;
    at_4a = (at_3a + 1) / 2;
    at_5b = (at_4a + 1) / 2;
    window = std::min<std::int64_t>(7, at_5b);
  }
  std::int64_t auxiliary() const { return (at_4a - 5) / 3 + 1; }
  std::int64_t main() const { return (at_5b - window) / window + 1; }
  std::int64_t at_4a, at_5b;
  std::int64_t window;  // of the last pooling
};

// The mean over 5 x 5 windows, conv, norm, lin, norm2, out; without biases before a normalisation.
struct Auxiliary {
  Auxiliary(std::int64_t channels, std::int64_t pixels, std::int64_t classes)
      : conv(convolution(channels, width, 1)),
        norm(batch_norm_relu(width)),
        lin(std::make_unique<Linear>(width * pixels, units, /*bias=*/false)),
        norm2(batch_norm_relu(units)),
        out(std::make_unique<Linear>(units, classes)) {}

  Variable operator()(const Variable& x) const {
    const Variable h = (*norm)((*conv)(F::average_pooling_2d(x, 5, /*stride=*/3)));
    return (*out)((*norm2)((*lin)(h)));
  }

  static constexpr std::int64_t width = 128, units = 1024;
  std::unique_ptr<Conv2d> conv;
  std::unique_ptr<BatchNorm> norm;
  std::unique_ptr<Linear> lin;
  std::unique_ptr<BatchNorm> norm2;
  std::unique_ptr<Linear> out;
};

}  // namespace

struct GoogLeNetBn::Parts {
  using Modules = std::vector<std::unique_ptr<Inception>>;

  std::unique_ptr<Conv2d> conv1, conv2;
  std::unique_ptr<BatchNorm> norm1, norm2;
  Modules until_4a, until_4d, until_5b;
  std::unique_ptr<Auxiliary> first, second;
  std::unique_ptr<Linear> out;
  std::int64_t window = 0;  // of the last pooling

  static Variable run(const Modules& modules, Variable x) {
    for (const auto& module : modules)
      x = may_recompute([&module = *module](const Variable& input) { return module(input); }, x);
    return x;
  }

  Variable to_4a(const Variable& x) const {
    Variable h = F::max_pooling_2d((*norm1)((*conv1)(x)), 3, /*stride=*/2, /*pad=*/1);
    h = F::max_pooling_2d((*norm2)((*conv2)(h)), 3, /*stride=*/2, /*pad=*/1);
    return run(until_4a, h);
  }
  Variable from_4d(const Variable& x) const {
    return (*out)(F::average_pooling_2d(run(until_5b, x), window));
  }
};

GoogLeNetBn::GoogLeNetBn(std::int64_t classes, const Shape& image)
    : parts_(std::make_unique<Parts>()) {
  TASUKI_CHECK(image.rank() == 3 && image[1] == image[2],
               "GoogLeNetBn: expected square images of channels x H x W, found {}", image.text());
  Parts& p = *parts_;
  std::int64_t channels = 192;
  add("conv1", *(p.conv1 = convolution(image[0], 64, 7, 2)));
  add("norm1", *(p.norm1 = batch_norm_relu(64)));
  add("conv2", *(p.conv2 = convolution(64, channels, 3)));
  add("norm2", *(p.norm2 = batch_norm_relu(channels)));
  const auto append = [&](Parts::Modules& to, const auto& modules) {
    for (const auto& [name, settings] : modules) {
      to.push_back(std::make_unique<Inception>(channels, settings));
      add(name, *to.back());
      channels = to.back()->channels_out;
    }
  };
  const Pixels pixels(image[1]);
  const auto append_auxiliary = [&](const std::string& letter) {
    auto made =
        std::make_unique<Auxiliary>(channels, pixels.auxiliary() * pixels.auxiliary(), classes);
    add("conv" + letter, *made->conv);
    add("norm" + letter, *made->norm);
    add("lin" + letter, *made->lin);
    add("norm" + letter + "2", *made->norm2);
    add("out" + letter, *made->out);
    return made;
  };
  append(p.until_4a, modules_until_4a);
  p.first = append_auxiliary("a");
  append(p.until_4d, modules_until_4d);
  p.second = append_auxiliary("b");
  append(p.until_5b, modules_until_5b);
  p.window = pixels.window;
  p.out = std::make_unique<Linear>(channels * pixels.main() * pixels.main(), classes);
  add("out", *p.out);
}

GoogLeNetBn::~GoogLeNetBn() = default;

GoogLeNetBn::Scores GoogLeNetBn::all_scores(const Variable& x) {
  const Variable at_4a = parts_->to_4a(x);
  const Variable first = (*parts_->first)(at_4a);
  const Variable at_4d = Parts::run(parts_->until_4d, at_4a);
  const Variable second = (*parts_->second)(at_4d);
  return {parts_->from_4d(at_4d), first, second};
}

Variable GoogLeNetBn::forward(const Variable& x) {
  return parts_->from_4d(Parts::run(parts_->until_4d, parts_->to_4a(x)));
}

}  // namespace tasuki
