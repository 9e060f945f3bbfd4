// A function with its backward pass, and a layer around it: mpirun -np 2 own_layer
//
// own_layer check-gradients compares the backward pass with differences of the forward pass.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t inputs = 256, classes = 10;

// Made-up patterns; any other Dataset would do here.
std::unique_ptr<Dataset> patterns(std::int64_t count, std::uint64_t split) {
  return std::make_unique<SyntheticDataset>(SyntheticOptions{
      .count = count, .example_shape = {inputs}, .classes = classes, .split = split});
}

float sigmoid(float z) {
  return 1 / (1 + std::exp(-z));
}

// Activations may be on a GPU, in a 16-bit type and in a layout of the backend's. This function has
// a single loop, for plain float32 on the host, so it copies its inputs to the host and its results
// back. A function that only calls tasuki::backend(device) needs no copies
// (tasuki/tensor/backend.hpp).
Tensor on_host(const Tensor& values) {
  return values.plain().to(Device::cpu()).to(DType::float32);
}
Tensor like(const Tensor& other, const Tensor& host) {
  return host.to(other.dtype()).to(other.device());
}

// y = x sigmoid(b x), element by element, with a slope b that is learnt (Swish: Ramachandran et
// al., arXiv 1710.05941). An object is one recorded call: it keeps what backward() needs.
class SwishFunction : public Function {
 public:
  SwishFunction(Tensor x, Tensor b) : x_(std::move(x)), b_(std::move(b)) {}
  const char* name() const override { return "swish"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const Tensor upstream = on_host(dy), dx = Tensor::empty(x_.shape());
    const float b = b_.span<float>()[0];
    double db = 0;
    for (std::int64_t i = 0; i < x_.count(); ++i) {
      const float x = x_.data<float>()[i], d = upstream.data<float>()[i], s = sigmoid(b * x);
      dx.data<float>()[i] = d * (s + b * x * s * (1 - s));
      db += d * x * x * s * (1 - s);
    }
    if (gradients.needed(0)) gradients.add(0, like(dy, dx));
    if (gradients.needed(1)) gradients.add(1, Tensor::full({1}, db).to(dy.device()));
  }

 private:
  Tensor x_, b_;  // on the host
};

Variable swish(const Variable& x, const Variable& b) {
  // Replaying a recorded step would skip this code.
  if (!x.value().device().is_cpu()) refuse_recording("swish is computed on the host");
  const Tensor in = on_host(x.value()), slope = on_host(b.value());
  const Tensor out = Tensor::empty(in.shape());
  std::ranges::transform(
      in.span<float>(), out.span<float>().begin(),
      [factor = slope.span<float>()[0]](float value) { return value * sigmoid(factor * value); });
  return Function::record(like(x.value(), out), {x, b},
                          [&] { return std::make_unique<SwishFunction>(in, slope); });
}

class Swish : public Layer {
 public:
  Swish() : b_(add_parameter("b", {1}, initializers::one())) {}
  Variable forward(const Variable& x) override { return swish(x, b_); }

 private:
  Parameter& b_;
};

// Throws an error that names the element whose gradient is off.
int check_own_gradients() {
  const Tensor values = Tensor::empty({4, 5});
  RandomStream random(/*seed=*/0);
  for (float& value : values.span<float>()) value = 2 * random.normal();
  const Variable x(values, /*requires_grad=*/true), b(Tensor::full({1}, 0.7), true);
  check_gradients([](const std::vector<Variable>& in) { return swish(in[0], in[1]); }, {x, b});
  std::puts("the gradients of swish are right");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "check-gradients") return check_own_gradients();

  TrainingProgram program("own_layer", "trains a perceptron with a custom activation function");
  program.settings.epoch = 5;
  program.settings.batchsize = 50;
  program.settings.lr = 0.003;
  program.train_data = [] { return patterns(4000, 0); };
  program.test_data = [] { return patterns(500, 1); };
  program.create_model = [](const DatasetHeader& data) {
    auto model = std::make_unique<Sequential>();
    model->append("l1", std::make_unique<Linear>(inputs, 100))
        .append("swish", std::make_unique<Swish>())
        .append("l2", std::make_unique<Linear>(100, data.field("t").classes));
    return create_classifier(std::move(model));
  };
  return program.run(argc, argv);
}
