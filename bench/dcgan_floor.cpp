#include "dcgan_floor.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <unordered_map>
#include <utility>

#include "tensor/cpu/dnnl_interface.hpp"

namespace tasuki::bench {
namespace {

using dnnl::memory;
using Work = std::function<void()>;

memory::desc any(const memory::dims& dims) {
  return {dims, memory::data_type::f32, memory::format_tag::any};
}

memory ones(const memory::desc& desc) {
  memory values(desc, dnnl_engine());
  auto* const data = static_cast<float*>(values.get_data_handle());
  std::fill_n(data, desc.get_size() / sizeof(float), 1.0f);
  return values;
}

template <class Primitive, class Description>
Work work_of(const Description& description, const std::vector<std::pair<int, memory::desc>>& of) {
  std::unordered_map<int, memory> arguments;
  for (const auto& [name, desc] : of) arguments.emplace(name, ones(desc));
  arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(description.scratchpad_desc(), dnnl_engine()));
  return [primitive = Primitive(description), arguments, stream = dnnl::stream(dnnl_engine())] {
    primitive.execute(stream, arguments);
  };
}

double seconds_of(const Work& work) {
  work();
  double least = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < 2; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

// A convolution of N x in x side x side; a deconvolution is the convolution of its result.
struct Convolution {
  memory::dims x, w, y;
  memory::dims stride, padding = {1, 1};

  Convolution(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t side, bool halves)
      : x{batch, in, side, side},
        w{out, in, halves ? 4 : 3, halves ? 4 : 3},
        y{batch, out, halves ? side / 2 : side, halves ? side / 2 : side},
        stride(2, halves ? 2 : 1) {}

  dnnl::convolution_forward::primitive_desc forward(dnnl::algorithm algorithm) const {
    return describe<dnnl::convolution_forward>(dnnl::prop_kind::forward_training, algorithm, any(x),
                                               any(w), any(y), stride, padding, padding);
  }
  Work work_forward(dnnl::algorithm algorithm) const {
    const auto pd = forward(algorithm);
    return work_of<dnnl::convolution_forward>(pd, {{DNNL_ARG_SRC, pd.src_desc()},
                                                   {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                   {DNNL_ARG_DST, pd.dst_desc()}});
  }
  Work work_data(dnnl::algorithm algorithm) const {
    const auto pd = describe_backward<dnnl::convolution_backward_data>(
        forward(algorithm), algorithm, any(x), any(w), any(y), stride, padding, padding);
    return work_of<dnnl::convolution_backward_data>(pd, {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                         {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                         {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}});
  }
  Work work_weights(dnnl::algorithm algorithm) const {
    const auto pd = describe_backward<dnnl::convolution_backward_weights>(
        forward(algorithm), algorithm, any(x), any(w), any(y), stride, padding, padding);
    return work_of<dnnl::convolution_backward_weights>(
        pd, {{DNNL_ARG_SRC, pd.src_desc()},
             {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
             {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}});
  }
};

// The fastest of oneDNN's algorithms.
Work fastest(const std::function<Work(dnnl::algorithm)>& make) {
  Work best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto algorithm :
       {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd}) {
    Work work;
    try {
      work = make(algorithm);
    } catch (const dnnl::error&) {
      continue;
    }
    if (const double seconds = seconds_of(work); seconds < least) {
      least = seconds;
      best = work;
    }
  }
  return best;
}

Work multiply(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto pd = describe<dnnl::matmul>(any({m, k}), any({k, n}), any({m, n}));
  return work_of<dnnl::matmul>(pd, {{DNNL_ARG_SRC, pd.src_desc()},
                                    {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                    {DNNL_ARG_DST, pd.dst_desc()}});
}

}  // namespace

DcganFloor::DcganFloor(const DcganSettings& settings, std::int64_t batch) {
  // Passes per step: forward, input gradient, weight gradient.
  const auto add = [&](const Convolution& convolution, int forward, int data, int weights) {
    products_.push_back({fastest([&](auto a) { return convolution.work_forward(a); }), forward});
    products_.push_back({fastest([&](auto a) { return convolution.work_data(a); }), data});
    products_.push_back({fastest([&](auto a) { return convolution.work_weights(a); }), weights});
  };
  const std::int64_t channels = settings.channels, smallest = 16 * channels;
  // The discriminator: forward and weight gradients for real and generated images; input gradients
  // also for the generator, and in the first layer only for the generator.
  add({batch, 3, channels >> 3, 32, false}, 2, 1, 2);
  for (int i = 3; i > 0; --i) {
    add({batch, channels >> i, channels >> (i - 1), std::int64_t{4} << i, true}, 2, 3, 2);
    add({batch, channels >> (i - 1), channels >> (i - 1), std::int64_t{4} << (i - 1), false}, 2, 3,
        2);
  }
  products_.push_back({multiply(batch, 1, smallest), 2});
  products_.push_back({multiply(batch, smallest, 1), 3});
  products_.push_back({multiply(1, smallest, batch), 2});
  // The generator: a deconvolution's forward pass is a convolution's input gradient.
  for (int i = 1; i <= 3; ++i)
    add({batch, channels >> i, channels >> (i - 1), std::int64_t{4} << i, true}, 1, 1, 1);
  add({batch, 3, channels >> 3, 32, false}, 1, 1, 1);
  products_.push_back({multiply(batch, smallest, settings.hidden), 1});
  products_.push_back({multiply(settings.hidden, smallest, batch), 1});
}

void DcganFloor::run() const {
  for (const Product& product : products_)
    for (int i = 0; i < product.times; ++i) product.run();
}

}  // namespace tasuki::bench
