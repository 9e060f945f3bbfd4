// Our kernels for attention on a GPU; cuDNN has faster ones for 16-bit values
// (cudnn_attention.hpp). 16-bit values are multiplied on tensor cores where there are some
// (attention_tensor_cores.cu). Otherwise (attention_kernels.cu) they are multiplied in float32.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// Columns per head; on tensor cores.
inline constexpr std::int64_t most_head_width = 256, most_tensor_core_width = 128;

// Columns of N x T x W, as in HeadColumns: `values` is where head 0 of item 0 begins.
struct HeadArray {
  void* values = nullptr;
  std::int64_t rows = 0, width = 0;  // T, W
};

struct AttentionArrays {
  DType type = DType::float32;
  HeadArray q = {}, k = {}, v = {}, y = {}, dy = {};  // dy: for gradients only
  float2* statistics = nullptr;  // N x heads x queries: the largest score, and the sum
  std::int64_t items = 0, heads = 0, head_width = 0;
  const std::int64_t* lengths = nullptr;  // may be none
  float scale = 1;
  bool causal = false;
  bool has_packs = false;  // 16 bytes of a head's row can be read, and written, at once
};

struct AttentionGradients {
  HeadArray dq = {}, dk = {}, dv = {};
  float* products = nullptr;  // scratch, N x heads x queries: of y and dy
};

void attention(const Launch& launch, const AttentionArrays& arrays);
void attention_gradient(const Launch& launch, const AttentionArrays& arrays,
                        const AttentionGradients& to);

// The same on tensor cores, for 16-bit values, where there is code for the device that has them.
bool has_tensor_core_code(int compute_capability);
void tensor_core_attention(const Launch& launch, const AttentionArrays& arrays);
void tensor_core_attention_gradient(const Launch& launch, const AttentionArrays& arrays,
                                    const AttentionGradients& to);

// --- for cuDNN's attention (attention_padding.cu) ---

// The queries and keys of each item that are no padding, but at least one.
void attention_lengths(const Launch& launch, const AttentionArrays& arrays, std::int32_t* queries,
                       std::int32_t* keys);

// Writes zeros to the rows of padding of an array of 16-bit values whose rows are packs.
// `of_queries`: a row belongs to a query; otherwise to a key.
void clear_padding(const Launch& launch, const AttentionArrays& arrays, const HeadArray& array,
                   bool of_queries);

// From the logarithms of sums of exponentials, as cuDNN writes them.
void split_statistics(const Launch& launch, const float* logarithms, float2* to,
                      std::int64_t count);

}  // namespace tasuki::kernels
