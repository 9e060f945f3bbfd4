#include "apps/seq2seq/translator.hpp"

#include <utility>
#include <vector>

#include "nn/functions/loss.hpp"
#include "nn/random.hpp"
#include "parallel/functions/messages.hpp"

namespace F = tasuki::functions;

namespace tasuki::seq2seq {
namespace {

// The decoder's initial states: computed here, or received.
using FirstStates = std::function<std::vector<Variable>(const Batch& batch)>;

// Fields arrive on the model's device.
std::vector<Variable> encode(Seq2seqEncoder& encoder, const Batch& batch) {
  const Device device = encoder.device();
  return encoder.encode(batch["x"].to(device), batch.lengths("x").to(device));
}

Variable loss_of(Seq2seqDecoder& decoder, const std::vector<Variable>& states, const Batch& batch,
                 Observation& report) {
  const Device device = decoder.device();
  const Tensor t = batch["t"].to(device);
  const Variable scores =
      decoder.score(states, batch["y"].to(device), batch.lengths("y").to(device));
  const Tensor labels = t.reshape({t.count()});
  const auto [loss, right] = F::loss_and_accuracy(scores, labels);
  report.add_sum("accuracy", right.correct, right.counted);
  return loss;
}

LossFunction translation_loss(Seq2seqDecoder& decoder, FirstStates first) {
  return [&decoder, first = std::move(first)](const Batch& batch, Observation& report) {
    return loss_of(decoder, first(batch), batch, report);
  };
}

std::function<Quality(const Batch&)> evaluation(Seq2seqDecoder& decoder, FirstStates first) {
  return [&decoder, first = std::move(first)](const Batch& batch) {
    const std::vector<Variable> states = first(batch);
    Quality found;
    Observation unused;
    found.words = batch.weight();
    found.loss =
        loss_of(decoder, states, batch, unused).value().item() * static_cast<double>(found.words);
    compare(decoder.translate(states), batch, found);
    return found;
  };
}

// A part that exchanges messages in its passes.
template <class Half>
class Part final : public Half {
 public:
  using Half::Half;

 private:
  bool communicates_itself() const override { return true; }
};

constexpr int encoder_rank = 0, decoder_rank = 1;

Translator encoder_part(const Seq2seqSizes& sizes, Communicator& model) {
  auto encoder = std::make_unique<Part<Seq2seqEncoder>>(sizes);
  const auto send_states = [&encoder = *encoder, &model](const Batch& batch) {
    return F::send(encode(encoder, batch), model, decoder_rank);
  };
  return {
      .training = {std::move(encoder),
                   [send_states](const Batch& batch, Observation&) { return send_states(batch); },
                   /*has_loss=*/false},
      .evaluate = [send_states](const Batch& batch) {
        send_states(batch);
        return Quality{};
      }};
}

Translator decoder_part(const Seq2seqSizes& sizes, Communicator& model) {
  auto decoder = std::make_unique<Part<Seq2seqDecoder>>(sizes);
  const auto receive_states = [sizes, &model](const Batch&) {
    // In a whole model the encoder's dropouts come first, and masks depend on the place.
    if (TrainingMode::is_training() && sizes.dropout > 0)
      set_random_calls(random_calls() + static_cast<std::uint64_t>(sizes.layers - 1));
    return F::recv_many(model, encoder_rank);
  };
  LossFunction loss = translation_loss(*decoder, receive_states);
  auto evaluate = evaluation(*decoder, receive_states);
  return {.training = {std::move(decoder), std::move(loss)}, .evaluate = std::move(evaluate)};
}

}  // namespace

Translator create_translator(const Seq2seqSizes& sizes) {
  auto made = std::make_unique<Seq2seq>(sizes);
  const auto states = [&encoder = made->encoder()](const Batch& batch) {
    return encode(encoder, batch);
  };
  LossFunction loss = translation_loss(made->decoder(), states);
  auto evaluate = evaluation(made->decoder(), states);
  return {.training = {std::move(made), std::move(loss)}, .evaluate = std::move(evaluate)};
}

Translator create_part_of_translator(const Seq2seqSizes& sizes, Communicator& model) {
  TASUKI_CHECK(model.size() == 2, "a translator on two ranks was given {}", model.size());
  return model.rank() == encoder_rank ? encoder_part(sizes, model) : decoder_part(sizes, model);
}

}  // namespace tasuki::seq2seq
