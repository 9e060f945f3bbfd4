// Element-wise part of batch normalisation, after the sums: its result and the gradient of its
// input, for both layouts. Memory is read and written in 16 bytes if shapes allow.
#include "tensor/cuda/batch_norm_support.cuh"

namespace tasuki::kernels {
namespace {

// --- element-wise functions ---

template <class T>
struct ApplyMap {
  T* y;
  const T* x;
  BatchNormChannels values;
  bool relu;
  struct Channel {
    float mean, scale, beta;
  };

  __device__ Channel channel(std::int64_t c) const {
    return {values.mean[c], values.gamma[c] * values.inverse_deviation[c], values.beta[c]};
  }
  template <int V>
  __device__ void map(std::int64_t index, const Channel (&channels)[V]) const {
    Values<T, V> io = load<V>(x, index);
    for (int j = 0; j < V; ++j) {
      const Channel& c = channels[j];
      const float value = normalised(convert<float>(io.values[j]), c.mean, c.scale, c.beta);
      io.values[j] = convert<T>(relu && value < 0 ? 0.0f : value);
    }
    store<V>(y, index, io);
  }
};

template <class T, bool adds>
struct GradientMap {
  T* dx;
  const T *x, *dy, *added;
  BatchNormChannels values;
  bool relu;
  const float* means;
  std::int64_t channel_count;
  // scale * (dy - mean_dy - normalised x * mean_product) as scale * dy + slope * (x - mean) +
  // offset, which takes fewer registers.
  struct Channel {
    float mean, scale, beta, slope, offset;
  };

  __device__ Channel channel(std::int64_t c) const {
    const float inverse_deviation = values.inverse_deviation[c];
    const float scale = values.gamma[c] * inverse_deviation;
    return {values.mean[c], scale, values.beta[c],
            -scale * inverse_deviation * means[channel_count + c], -scale * means[c]};
  }
  template <int V>
  __device__ void map(std::int64_t index, const Channel (&channels)[V]) const {
    const Values<T, V> in = load<V>(x, index), upstream = load<V>(dy, index);
    Values<T, V> out = {};
    if constexpr (adds) out = load<V>(added, index);
    for (int j = 0; j < V; ++j) {
      const Channel& c = channels[j];
      const float value = convert<float>(in.values[j]);
      float gradient = convert<float>(upstream.values[j]);
      if (relu && !(normalised(value, c.mean, c.scale, c.beta) > 0)) gradient = 0;
      const float centred = __fsub_rn(value, c.mean);  // like normalised(), which then shares it
      const float own = c.scale * gradient + (c.slope * centred + c.offset);
      out.values[j] = convert<T>(adds ? convert<float>(out.values[j]) + own : own);
    }
    store<V>(dx, index, out);
  }
};

template <int V, class Map>
__global__ void map_rows_kernel(Map map, std::int64_t rows, std::int64_t packs) {
  const std::int64_t pack = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  typename Map::Channel constants[V];
  for (int j = 0; j < V; ++j) constants[j] = map.channel(pack * V + j);
  for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
       row += std::int64_t{gridDim.y} * blockDim.y)
    map.template map<V>(row * packs + pack, constants);
}

template <int V, class Map>
__global__ void map_planes_kernel(Map map, unsigned items, std::int64_t channels,
                                  unsigned packs_per_plane) {
  const std::int64_t channel = blockIdx.x;
  typename Map::Channel constants[V];
  for (int j = 0; j < V; ++j) constants[j] = map.channel(channel);
  const unsigned packs = items * packs_per_plane;
  for (unsigned i = blockIdx.y * blockDim.x + threadIdx.x; i < packs; i += gridDim.y * blockDim.x) {
    const unsigned item = i / packs_per_plane, within = i % packs_per_plane;
    map.template map<V>((item * channels + channel) * packs_per_plane + within, constants);
  }
}

template <int V, class Map>
void map(const Launch& launch, const BatchNormSize& size, const Map& map) {
  const NormGrid grid = grid_of(launch, size, V, 8);
  if (size.channels_last)
    map_rows_kernel<V><<<grid.blocks, grid.block, 0, launch.stream>>>(map, size.items * size.pixels,
                                                                      size.channels / V);
  else
    map_planes_kernel<V><<<grid.blocks, grid.block, 0, launch.stream>>>(
        map, static_cast<unsigned>(size.items), size.channels,
        static_cast<unsigned>(size.pixels / V));
}

}  // namespace

void batch_norm_apply(const Launch& launch, DType type, void* y, const void* x,
                      const BatchNormSize& size, const BatchNormChannels& channels, bool relu) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ApplyMap<T> apply{static_cast<T*>(y), static_cast<const T*>(x), channels, relu};
    with_width<T>(
        size, [&](auto width) { map<decltype(width)::value>(launch, size, apply); }, x, y);
  });
}

void batch_norm_gradient(const Launch& launch, DType type, void* dx, const void* x, const void* dy,
                         const BatchNormSize& size, const BatchNormChannels& channels, bool relu,
                         const float* means, const void* added) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto adds) {
      const GradientMap<T, decltype(adds)::value> gradient{static_cast<T*>(dx),
                                                           static_cast<const T*>(x),
                                                           static_cast<const T*>(dy),
                                                           static_cast<const T*>(added),
                                                           channels,
                                                           relu,
                                                           means,
                                                           size.channels};
      with_width<T>(
          size, [&](auto width) { map<decltype(width)::value>(launch, size, gradient); }, x, dy,
          added, dx);
    };
    if (added != nullptr)
      run(std::true_type());
    else
      run(std::false_type());
  });
}

}  // namespace tasuki::kernels
