// The sums of batch normalisation: one kernel adds up two sums by channel, for both layouts, and
// small structs define the summands; a block then finishes a channel. Memory is read in 16 bytes if
// shapes allow.
#include "tensor/cuda/batch_norm_support.cuh"

namespace tasuki::kernels {
namespace {

// --- summands ---

// x and x squared, minus a value of the channel, which keeps digits if the mean is far from 0: the
// middle one of three, as a single one may be an outlier, itself far from all others.
template <class T>
struct StatisticsTerms {
  const T* x;
  std::int64_t channel_step;  // from the first value of a channel to that of the next
  std::int64_t middle, last;  // of a channel's values, from its first one
  struct Channel {
    float shift;
  };

  StatisticsTerms(const T* values, const BatchNormSize& size)
      : x(values), channel_step(size.channels_last ? 1 : size.pixels) {
    const std::int64_t items = size.items, pixels = size.pixels;
    middle = place(size, items / 2, pixels / 2);
    last = place(size, items - 1, pixels - 1);
  }
  static std::int64_t place(const BatchNormSize& size, std::int64_t item, std::int64_t pixel) {
    const std::int64_t of_item = item * size.pixels * size.channels;
    return of_item + pixel * (size.channels_last ? size.channels : 1);
  }

  __device__ Channel channel(std::int64_t c) const {
    const T* const first = x + c * channel_step;
    const float a = convert<float>(*first), b = convert<float>(first[middle]);
    return {fmaxf(fminf(a, b), fminf(fmaxf(a, b), convert<float>(first[last])))};
  }
  template <int V>
  __device__ void add(std::int64_t index, const Channel (&channels)[V], float (&first)[V],
                      float (&second)[V]) const {
    const Values<T, V> in = load<V>(x, index);
    for (int j = 0; j < V; ++j) {
      const float apart = convert<float>(in.values[j]) - channels[j].shift;
      first[j] += apart;
      second[j] += apart * apart;
    }
  }
};

// dy and dy * (x - mean), where dy is 0 if ReLU let nothing through.
template <class T>
struct GradientTerms {
  const T *x, *dy;
  BatchNormChannels values;
  bool relu;
  struct Channel {
    float mean, scale, beta;
  };

  __device__ Channel channel(std::int64_t c) const {
    return {values.mean[c], values.gamma[c] * values.inverse_deviation[c], values.beta[c]};
  }
  template <int V>
  __device__ void add(std::int64_t index, const Channel (&channels)[V], float (&first)[V],
                      float (&second)[V]) const {
    const Values<T, V> in = load<V>(x, index), upstream = load<V>(dy, index);
    for (int j = 0; j < V; ++j) {
      const Channel& c = channels[j];
      const float value = convert<float>(in.values[j]);
      float gradient = convert<float>(upstream.values[j]);
      if (relu && !(normalised(value, c.mean, c.scale, c.beta) > 0)) gradient = 0;
      first[j] += gradient;
      second[j] += gradient * (value - c.mean);
    }
  }
};

// --- kernels: scratch gets both sums of every share, as shares x 2 x C ---

template <int V, class Terms>
__global__ void sum_rows_kernel(Terms terms, std::int64_t rows, std::int64_t channels,
                                float* scratch) {
  // Neighbouring threads use neighbouring words, so that no two of a warp meet in a bank.
  __shared__ float sums[2][V][norm_threads];
  const std::int64_t packs = channels / V;
  const std::int64_t pack = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  float first[V] = {}, second[V] = {};
  if (pack < packs) {
    typename Terms::Channel constants[V];
    for (int j = 0; j < V; ++j) constants[j] = terms.channel(pack * V + j);
#pragma unroll 4
    for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
         row += std::int64_t{gridDim.y} * blockDim.y)
      terms.template add<V>(row * packs + pack, constants, first, second);
  }
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (int j = 0; j < V; ++j) {
    sums[0][j][at] = first[j];
    sums[1][j][at] = second[j];
  }
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int j = 0; j < V; ++j) {
        sums[0][j][at] += sums[0][j][at + half * blockDim.x];
        sums[1][j][at] += sums[1][j][at + half * blockDim.x];
      }
  }
  // A thread of the first row reads what it wrote.
  if (threadIdx.y == 0 && pack < packs)
    for (int j = 0; j < V; ++j) {
      const std::int64_t channel = pack * V + j;
      scratch[std::int64_t{2} * blockIdx.y * channels + channel] = sums[0][j][at];
      scratch[(std::int64_t{2} * blockIdx.y + 1) * channels + channel] = sums[1][j][at];
    }
}

template <int V, class Terms>
__global__ void sum_planes_kernel(Terms terms, unsigned items, std::int64_t channels,
                                  unsigned packs_per_plane, float* scratch) {
  __shared__ float shared[32];
  const std::int64_t channel = blockIdx.x;
  float first[V] = {}, second[V] = {};
  typename Terms::Channel constants[V];
  for (int j = 0; j < V; ++j) constants[j] = terms.channel(channel);
  const unsigned packs = items * packs_per_plane;
  for (unsigned i = blockIdx.y * blockDim.x + threadIdx.x; i < packs; i += gridDim.y * blockDim.x) {
    const unsigned item = i / packs_per_plane, within = i % packs_per_plane;
    terms.template add<V>((item * channels + channel) * packs_per_plane + within, constants, first,
                          second);
  }
  for (int j = 1; j < V; ++j) {
    first[0] += first[j];
    second[0] += second[j];
  }
  const float first_sum = block_sum(first[0], shared), second_sum = block_sum(second[0], shared);
  if (threadIdx.x == 0) {
    scratch[std::int64_t{2} * blockIdx.y * channels + channel] = first_sum;
    scratch[(std::int64_t{2} * blockIdx.y + 1) * channels + channel] = second_sum;
  }
}

// Both sums of a channel over the shares, by a block; thread 0 gets them.
struct Sums {
  double first, second;
};
__device__ Sums sum_shares(const float* scratch, unsigned shares, std::int64_t channels,
                           std::int64_t c) {
  __shared__ double shared[32];
  Sums sums{0, 0};
  for (unsigned i = threadIdx.x; i < shares; i += blockDim.x) {
    sums.first += static_cast<double>(scratch[std::int64_t{2} * i * channels + c]);
    sums.second += static_cast<double>(scratch[(std::int64_t{2} * i + 1) * channels + c]);
  }
  return {block_sum(sums.first, shared), block_sum(sums.second, shared)};
}

__device__ float inverse_root(double variance, float eps) {
  return static_cast<float>(1.0 / sqrt(variance + static_cast<double>(eps)));
}

template <class T>
__global__ void finish_statistics_kernel(StatisticsTerms<T> terms, const float* scratch,
                                         unsigned shares, std::int64_t channels, double values,
                                         float eps, float* mean, float* variance,
                                         float* inverse_deviation) {
  for (std::int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const Sums sums = sum_shares(scratch, shares, channels, c);
    if (threadIdx.x != 0) continue;
    const double apart = sums.first / values;
    const double spread = sums.second / values - apart * apart;
    const double biased = spread < 0 ? 0 : spread;  // a NaN stays one
    mean[c] = static_cast<float>(static_cast<double>(terms.channel(c).shift) + apart);
    variance[c] = static_cast<float>(biased);
    inverse_deviation[c] = inverse_root(biased, eps);
  }
}

// As in finish_statistics_kernel the shift is undone at the end; in double no digits are lost then.
template <class T>
__global__ void finish_sums_kernel(StatisticsTerms<T> terms, const float* scratch, unsigned shares,
                                   std::int64_t channels, double values, double* sums) {
  for (std::int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const Sums found = sum_shares(scratch, shares, channels, c);
    if (threadIdx.x != 0) continue;
    const double shift = static_cast<double>(terms.channel(c).shift);
    sums[c] = values * shift + found.first;
    sums[channels + c] = found.second + shift * (2 * found.first + values * shift);
    if (c == 0) sums[2 * channels] = values;
  }
}

__global__ void from_sums_kernel(const double* sums, std::int64_t channels, float eps, float decay,
                                 BatchNormFound found) {
  const double values = sums[2 * channels];
  const double unbiased = values > 1 ? values / (values - 1) : 1;
  for (std::int64_t c = thread_index(); c < channels; c += thread_count()) {
    const double mean = values > 0 ? sums[c] / values : 0;
    const double spread = values > 0 ? sums[channels + c] / values - mean * mean : 0;
    const double biased = spread < 0 ? 0 : spread;  // a NaN stays one
    found.mean[c] = static_cast<float>(mean);
    found.variance[c] = static_cast<float>(biased);
    found.inverse_deviation[c] = inverse_root(biased, eps);
    if (!(values > 0)) continue;
    found.average_mean[c] = decay * found.average_mean[c] + (1 - decay) * static_cast<float>(mean);
    found.average_variance[c] =
        decay * found.average_variance[c] + (1 - decay) * static_cast<float>(unbiased * biased);
  }
}

__global__ void gradient_means_kernel(const double* sums, const float* all, std::int64_t channels,
                                      float* means) {
  for (std::int64_t i = thread_index(); i < 2 * channels; i += thread_count())
    means[i] = static_cast<float>(static_cast<double>(all[i]) / sums[2 * channels]);
}

__global__ void inverse_deviation_kernel(float* inverse_deviation, const float* variance, float eps,
                                         std::int64_t channels) {
  for (std::int64_t c = thread_index(); c < channels; c += thread_count())
    inverse_deviation[c] = inverse_root(variance[c], eps);
}

__global__ void finish_gradient_kernel(const float* scratch, unsigned shares, std::int64_t channels,
                                       double values, const float* inverse_deviation, float* dgamma,
                                       float* dbeta, bool accumulate, float* means) {
  for (std::int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const Sums sums = sum_shares(scratch, shares, channels, c);
    if (threadIdx.x != 0) continue;
    const double products = sums.second * static_cast<double>(inverse_deviation[c]);
    const float gamma_gradient = static_cast<float>(products);
    const float beta_gradient = static_cast<float>(sums.first);
    dgamma[c] = accumulate ? dgamma[c] + gamma_gradient : gamma_gradient;
    dbeta[c] = accumulate ? dbeta[c] + beta_gradient : beta_gradient;
    means[c] = static_cast<float>(sums.first / values);
    means[channels + c] = static_cast<float>(products / values);
  }
}

// --- launches ---

// Each block has sums to add up at its end, and leaves a share to be added. So threads take many
// rows; few if there are not enough for two blocks a multiprocessor.
NormGrid sum_grid(const Launch& launch, const BatchNormSize& size, int width) {
  const NormGrid grid = grid_of(launch, size, width, 4, 16);
  const auto enough = static_cast<unsigned>(2 * launch.multiprocessors);
  return grid.blocks.x * grid.blocks.y >= enough ? grid : grid_of(launch, size, width, 2, 4);
}

// Returns the number of shares.
template <int V, class Terms>
unsigned sum_by(const Launch& launch, const BatchNormSize& size, const Terms& terms,
                float* scratch) {
  const NormGrid grid = sum_grid(launch, size, V);
  if (size.channels_last)
    sum_rows_kernel<V><<<grid.blocks, grid.block, 0, launch.stream>>>(
        terms, size.items * size.pixels, size.channels, scratch);
  else
    sum_planes_kernel<V><<<grid.blocks, grid.block, 0, launch.stream>>>(
        terms, static_cast<unsigned>(size.items), size.channels,
        static_cast<unsigned>(size.pixels / V), scratch);
  return grid.blocks.y;
}

// The same with reads as wide as the arrays that the terms are made of allow.
template <class T, class Terms, class... Arrays>
unsigned sum(const Launch& launch, const BatchNormSize& size, const Terms& terms, float* scratch,
             Arrays... arrays) {
  unsigned shares = 0;
  with_width<T>(
      size,
      [&](auto width) { shares = sum_by<decltype(width)::value>(launch, size, terms, scratch); },
      arrays...);
  return shares;
}

// Runs finish(terms, shares), which adds up the shares of x and of its squares.
template <class Finish>
void sum_statistics(const Launch& launch, DType type, const void* x, const BatchNormSize& size,
                    float* scratch, const Finish& finish) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const StatisticsTerms<T> terms(static_cast<const T*>(x), size);
    finish(terms, sum<T>(launch, size, terms, scratch, x));
  });
}

double values_per_channel(const BatchNormSize& size) {
  return static_cast<double>(size.items * size.pixels);
}

}  // namespace

std::size_t batch_norm_scratch(const Launch& launch, DType type, const BatchNormSize& size) {
  unsigned shares = 1;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    shares = std::max(sum_grid(launch, size, width_for<T>(size)).blocks.y,
                      sum_grid(launch, size, 1).blocks.y);
  });
  return std::size_t{2} * shares * static_cast<std::size_t>(size.channels);
}

void batch_norm_statistics(const Launch& launch, DType type, const void* x,
                           const BatchNormSize& size, float eps, float* mean, float* variance,
                           float* inverse_deviation, float* scratch) {
  sum_statistics(launch, type, x, size, scratch, [&](const auto& terms, unsigned shares) {
    finish_statistics_kernel<<<grid_for(launch, block_threads * size.channels), block_threads, 0,
                               launch.stream>>>(terms, scratch, shares, size.channels,
                                                values_per_channel(size), eps, mean, variance,
                                                inverse_deviation);
  });
}

void batch_norm_sums(const Launch& launch, DType type, const void* x, const BatchNormSize& size,
                     double* sums, float* scratch) {
  sum_statistics(launch, type, x, size, scratch, [&](const auto& terms, unsigned shares) {
    finish_sums_kernel<<<grid_for(launch, block_threads * size.channels), block_threads, 0,
                         launch.stream>>>(terms, scratch, shares, size.channels,
                                          values_per_channel(size), sums);
  });
}

void batch_norm_from_sums(const Launch& launch, const double* sums, std::int64_t channels,
                          float eps, float decay, const BatchNormFound& found) {
  from_sums_kernel<<<grid_for(launch, channels), block_threads, 0, launch.stream>>>(
      sums, channels, eps, decay, found);
}

void batch_norm_gradient_means(const Launch& launch, const double* sums, const float* all,
                               std::int64_t channels, float* means) {
  gradient_means_kernel<<<grid_for(launch, 2 * channels), block_threads, 0, launch.stream>>>(
      sums, all, channels, means);
}

void batch_norm_inverse_deviation(const Launch& launch, float* inverse_deviation,
                                  const float* variance, float eps, std::int64_t channels) {
  inverse_deviation_kernel<<<grid_for(launch, channels), block_threads, 0, launch.stream>>>(
      inverse_deviation, variance, eps, channels);
}

void batch_norm_gradient_sums(const Launch& launch, DType type, const void* x, const void* dy,
                              const BatchNormSize& size, const BatchNormChannels& channels,
                              bool relu, float* dgamma, float* dbeta, bool accumulate, float* means,
                              float* scratch) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const GradientTerms<T> terms{static_cast<const T*>(x), static_cast<const T*>(dy), channels,
                                 relu};
    const unsigned shares = sum<T>(launch, size, terms, scratch, x, dy);
    finish_gradient_kernel<<<grid_for(launch, block_threads * size.channels), block_threads, 0,
                             launch.stream>>>(scratch, shares, size.channels,
                                              values_per_channel(size), channels.inverse_deviation,
                                              dgamma, dbeta, accumulate, means);
  });
}

}  // namespace tasuki::kernels
