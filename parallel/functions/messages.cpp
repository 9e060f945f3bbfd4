#include "parallel/functions/messages.hpp"

#include <utility>

#include "nn/function.hpp"
#include "parallel/functions/exchange.hpp"

namespace tasuki::functions {
namespace {

class PseudoConnect final : public Function {
 public:
  explicit PseudoConnect(const Tensor& delegate)
      : shape_(delegate.shape()), dtype_(delegate.dtype()), device_(delegate.device()) {}
  const char* name() const override { return "pseudo_connect"; }

  void backward(const Tensor& gradient, Gradients& gradients) override {
    if (gradients.needed(1)) gradients.add(1, gradient);
    if (gradients.needed(0)) gradients.add(0, Tensor::zeros(shape_, dtype_, device_));
  }

 private:
  Shape shape_;
  DType dtype_;
  Device device_;
};

// `sender` has the member send(tensors, rank, tag): a communicator or a queue.
template <class Sender>
Variable send_by(Sender& sender, Communicator& communicator, const std::vector<Variable>& xs,
                 int rank, int tag) {
  refuse_repetition_of("send", communicator);
  sender.send(checked_values("send", xs), rank, tag);
  return record_exchange("send", communicator, std::vector<Tensor>(), xs,
                         [&communicator, rank, tag](const std::vector<Tensor>&) {
                           return communicator.recv_many(rank, tag);
                         })
      .delegate;
}

template <class Sender>
Received receive_by(Sender& sender, Communicator& communicator, int rank, const Variable& delegate,
                    int tag) {
  refuse_repetition_of("recv", communicator);
  Exchanged exchanged =
      record_exchange("recv", communicator, communicator.recv_many(rank, tag), {delegate},
                      [&sender, rank, tag](const std::vector<Tensor>& gradients) {
                        sender.send(gradients, rank, tag);
                        return std::vector<Tensor>();
                      });
  return {std::move(exchanged.results), std::move(exchanged.delegate)};
}

}  // namespace

Variable send(const Variable& x, Communicator& communicator, int rank, int tag) {
  return send(std::vector<Variable>{x}, communicator, rank, tag);
}

Variable send(const std::vector<Variable>& xs, Communicator& communicator, int rank, int tag) {
  return send_by(communicator, communicator, xs, rank, tag);
}

Variable send(const std::vector<Variable>& xs, SendQueue& queue, int rank, int tag) {
  return send_by(queue, queue.communicator(), xs, rank, tag);
}

Variable recv(Communicator& communicator, int rank, const Variable& delegate, int tag) {
  refuse_repetition_of("recv", communicator);
  return record_exchange("recv", communicator, communicator.recv(rank, tag), {delegate},
                         [&communicator, rank, tag](const std::vector<Tensor>& gradients) {
                           communicator.send(gradients, rank, tag);
                           return std::vector<Tensor>();
                         });
}

std::vector<Variable> recv_many(Communicator& communicator, int rank, const Variable& delegate,
                                int tag) {
  return receive(communicator, rank, delegate, tag).values;
}

Received receive(Communicator& communicator, int rank, const Variable& delegate, int tag) {
  return receive_by(communicator, communicator, rank, delegate, tag);
}

Received receive(SendQueue& queue, int rank, const Variable& delegate, int tag) {
  return receive_by(queue, queue.communicator(), rank, delegate, tag);
}

Variable pseudo_connect(const Variable& delegate, const Variable& x) {
  return Function::record(x.value(), {delegate, x},
                          [&] { return std::make_unique<PseudoConnect>(delegate.value()); });
}

std::vector<Variable> pseudo_connect(const Variable& delegate, const std::vector<Variable>& xs) {
  std::vector<Variable> connected;
  connected.reserve(xs.size());
  for (const Variable& x : xs) connected.push_back(pseudo_connect(delegate, x));
  return connected;
}

}  // namespace tasuki::functions
