// SequenceOperations: the operations of a backend on sequences: embeddings, recurrent layers. The
// conventions of backend.hpp hold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tensor/backend.hpp"

namespace tasuki {

// LSTM (Hochreiter and Schmidhuber, 1997, with forget gates): i, f, o = sigmoid(...), a =
// tanh(...), c' = f c + i a, h' = o tanh(c'). GRU (Cho et al., arXiv 1406.1078, with the reset gate
// after the product, as cuDNN, Chainer and PyTorch have it): r, z = sigmoid(...), n = tanh(wx_n x +
// bx_n + r (wh_n h + bh_n)), h' = (1 - z) n + z h.
enum class Recurrence : std::uint8_t { lstm, gru };
inline constexpr std::int64_t gates_of(Recurrence kind) {
  return kind == Recurrence::lstm ? 4 : 3;
}
// h and c, or h.
inline constexpr std::int64_t states_of(Recurrence kind) {
  return kind == Recurrence::lstm ? 2 : 1;
}

// One direction of one layer with D inputs and H units, whose G gates stand one after the other in
// the order i, f, a, o (LSTM) or r, z, n (GRU), as in cuDNN, Chainer's files and PyTorch.
struct RecurrentLayer {
  Recurrence kind = Recurrence::lstm;
  bool is_reversed = false;  // from an example's last element to its first
  Tensor wx, wh;             // G H x D, G H x H
  Tensor bx, bh;             // G H each
  // What prepare_recurrent() returned for these weights; null: each call prepares them again.
  std::shared_ptr<Workspace> prepared;
};

// What its backward pass computes.
struct RecurrentGradients {
  struct Destination {
    Tensor tensor;  // undefined: not needed
    bool accumulate = false;
  };
  Destination wx, wh, bx, bh;
  bool needs_dx = true, needs_dstates = true;
};

class SequenceOperations {
 public:
  virtual ~SequenceOperations() = default;

  // Rows of w (n x d; float32 or an activation's type, which the result has, too) by number: ids
  // (int32 or int64) of any shape with up to 5 axes, to the same shape x d. Rows of `ignore` are
  // zeros. Any other id outside of 0 .. n - 1 is an error of kind data on CPUs; on GPUs, which the
  // host does not wait for, it makes a row of NaN.
  virtual Tensor embed(const Tensor& w, const Tensor& ids, std::optional<std::int64_t> ignore) = 0;
  // dw (n x d, float32): for each row the sum of the rows of dy with its id, added in the order in
  // which they stand there, whatever the number of threads.
  virtual void embed_backward(const Tensor& ids, const Tensor& dy,
                              std::optional<std::int64_t> ignore, const Tensor& dw,
                              bool accumulate) = 0;

  // The outputs of a layer, or their gradients; either member may be undefined for zeros.
  struct Outputs {
    Tensor y;       // N x T x H: h after each element, zeros for padding
    Tensor states;  // N x S x H: those after the last one (the first states for an empty sequence)
  };
  // A layer over padded sequences x (N x T x D): the first lengths[i] <= T elements (int64) of
  // example i count. `states`: initial states, N x S x H (S = 2: h and c; 1: h); undefined for
  // zeros. Any of N, T and D may be 0. `workspace`, if not null, is set to what the backward pass
  // needs.
  virtual Outputs recurrent(const RecurrentLayer& layer, const Tensor& x, const Tensor& lengths,
                            const Tensor& states, std::shared_ptr<Workspace>* workspace) = 0;
  // For calls of recurrent() with at most `items` examples, as long as the weights do not change:
  // the weights in the order in which products read them. Null if the backend has none.
  virtual std::shared_ptr<Workspace> prepare_recurrent(const RecurrentLayer& /*layer*/,
                                                       std::int64_t /*items*/) {
    return nullptr;
  }
  struct InputGradients {
    Tensor dx, dstates;  // of x's type; zeros for padding; undefined if not needed
  };
  virtual InputGradients recurrent_backward(const RecurrentLayer& layer, const Outputs& upstream,
                                            const Workspace& workspace,
                                            const RecurrentGradients& gradients) = 0;
};

}  // namespace tasuki
