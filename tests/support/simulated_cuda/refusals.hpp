// What the simulated libraries do not support, and where they fail, as a test says in the
// environment. Read at each call.
//
//   SIMULATED_CUDNN_REFUSES="MOMENT ALGORITHM KIND STATUS"
//
// MOMENT: `ask` (which algorithms there are), `offer` (an algorithm in the answer), `workspace`,
// `run`, or `record`, which is `run` on a stream that records; ALGORITHM: its number, or `any`; of
// a graph of operations: its number of products;
// KIND, of the convolution: `plain` or `channels_last` (its order), `16bit` (its type),
// `irregular_16bit` (and groups, dilation or numbers of channels that are not multiples of 8: what
// tensor cores may not do), `graph` (of operations, which has
// no algorithms), `fused` (with its bias and ReLU) or `any`; STATUS: the number of the
// cudnnStatus_t that is answered.
//
//   SIMULATED_CUBLASLT_REFUSES="MOMENT ALGORITHM EPILOGUE STATUS"
//
// MOMENT: `run` or `record`; ALGORITHM: 1 or 0, in the order in which they are offered, or `any`;
// EPILOGUE: `fused` (with a bias, or the gradient of one), `separate`, `gelu`, `not_gelu` or `any`;
// STATUS: of cublasStatus_t.
//
//   SIMULATED_CUDNN_RELU="MANNER"
//
// MANNER, of a ReLU that is fused with a convolution: `drops_nan` (a NaN becomes 0, whatever the
// activation's descriptor says), `reads_z` (what is added with factor 0 is read: a NaN there
// becomes the result), `takes_no_request` (NaN stays, and a descriptor that asks for that is not
// supported, as cuDNN's reference has it) or `slow` (it takes three operations' time); otherwise a
// NaN stays if the descriptor says so.
//
// An algorithm that fails (and is not merely unsupported) spoils its result, leaves an error for
// cudaGetLastError and breaks a recording.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

namespace tasuki::simulated {

enum class Moment { ask, offer, workspace, run };

struct ConvolutionKind {
  bool is_channels_last, is_16bit, is_irregular, is_fused;
};

// CUDNN_STATUS_SUCCESS when that is supported. `algorithm`: -1 where none is meant; `stream`: where
// it would run.
cudnnStatus_t refusal(Moment moment, int algorithm, const ConvolutionKind& kind,
                      cudaStream_t stream = nullptr);
// The same for a graph of operations.
cudnnStatus_t refusal_of_graph(Moment moment, int products, cudaStream_t stream = nullptr);
cublasStatus_t refusal_of_product(int algorithm, bool is_fused, bool has_gelu, cudaStream_t stream);

enum class FusedRelu { as_requested, drops_nan, reads_z, takes_no_request, slow };
FusedRelu fused_relu();

// As a kernel that could not be launched leaves a stream.
void fail_at_execution(cudaStream_t stream);

}  // namespace tasuki::simulated
