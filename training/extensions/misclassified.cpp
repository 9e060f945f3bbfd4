#include "training/extensions/misclassified.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/activity.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "nn/classifier.hpp"
#include "training/extensions/evaluation_pass.hpp"
#include "training/extensions/tensorboard.hpp"
#include "training/trainer.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t most_batches = 8;
constexpr std::size_t most_shown = 16;
constexpr std::int64_t columns = 4;

class FirstBatches final : public ForwardingIterator {
 public:
  using ForwardingIterator::ForwardingIterator;
  std::int64_t steps_per_epoch() const override {
    return std::min(most_batches, ForwardingIterator::steps_per_epoch());
  }
  Batch next() override { return inner().next(); }
};

// The shape as channels, height and width; nothing if an example is not an image.
std::optional<Shape> image_shape(const Shape& batch) {
  if (batch.rank() == 4 && (batch[1] == 1 || batch[1] == 3))
    return Shape{batch[1], batch[2], batch[3]};
  if (batch.rank() != 2) return std::nullopt;
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(batch[1])));
  constexpr std::int64_t least = 8;  // fewer numbers are hardly pixels
  return side >= least && side * side == batch[1] ? std::optional(Shape{1, side, side})
                                                  : std::nullopt;
}

struct Wrong {
  std::vector<float> pixels;
  std::int64_t label = 0, prediction = 0;
};

void scale_to_unit(std::vector<float>& pixels) {
  const auto [least, most] = std::ranges::minmax(pixels);
  if (least >= 0 && most <= 1) return;
  const float width = most > least ? most - least : 1;
  for (float& pixel : pixels) pixel = (pixel - least) / width;
}

class ShowMisclassified final : public Extension {
 public:
  ShowMisclassified(std::unique_ptr<Iterator> batches, std::vector<std::string> class_names)
      : pass_(std::make_unique<FirstBatches>(std::move(batches))),
        class_names_(std::move(class_names)) {}

  std::string default_name() const override { return "ShowMisclassified"; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool reads_model() const override { return true; }
  bool may_observe(const std::string&, const std::string&, bool) const override { return false; }

  void run(Trainer& trainer) override {
    EventFile* const events = events_of(trainer);
    if (events == nullptr) return;
    auto* const model = dynamic_cast<Classifier*>(&trainer.updater().optimizer().model());
    if (model == nullptr || model->communicates()) return;
    const PhaseScope evaluating(Phase::evaluating);
    std::vector<Wrong> found;
    Shape image;
    pass_.follow(trainer.updater(), GraphMode::off);
    pass_.run(
        [&](std::int64_t, const Batch& batch, Observation&) {
          const std::optional<Shape> shape = image_shape(batch["x"].shape());
          if (!shape || found.size() == most_shown) return;
          image = *shape;
          examine(batch, model->predictor(), found);
        },
        "");
    if (found.empty()) return;
    const std::int64_t step = trainer.updater().iteration();
    const auto count = std::ssize(found);
    const Tensor images = Tensor::empty({count, image[0], image[1], image[2]});
    auto into = images.span<float>().begin();
    for (const Wrong& wrong : found) into = std::ranges::copy(wrong.pixels, into).out;
    events->add_images("validation/misclassified", images, columns, step);
    events->add_text("validation/labels of misclassified", table_of(found), step);
  }

 private:
  static void examine(const Batch& batch, Layer& predictor, std::vector<Wrong>& found) {
    const auto on_host = [](const Tensor& values) {
      return values.plain().to(DType::float32).to(Device::cpu());
    };
    const Tensor scores = on_host(predictor(Variable(batch["x"])).value());
    const Tensor inputs = on_host(batch["x"]);
    const Tensor labels = batch["t"].to(Device::cpu());
    const std::int64_t classes = scores.shape()[1];
    const std::int64_t pixels = inputs.count() / batch.size();
    for (std::int64_t i = 0; i < batch.size() && found.size() < most_shown; ++i) {
      const auto label = static_cast<std::int64_t>(labels.slice(i, i + 1).item());
      const auto of_example = scores.span<float>().subspan(static_cast<std::size_t>(i * classes),
                                                           static_cast<std::size_t>(classes));
      const std::int64_t prediction = std::ranges::max_element(of_example) - of_example.begin();
      if (label < 0 || prediction == label) continue;
      const auto values = inputs.span<float>().subspan(static_cast<std::size_t>(i * pixels),
                                                       static_cast<std::size_t>(pixels));
      found.push_back({{values.begin(), values.end()}, label, prediction});
      scale_to_unit(found.back().pixels);
    }
  }

  std::string name_of(std::int64_t label) const {
    return label < std::ssize(class_names_) ? class_names_[static_cast<std::size_t>(label)]
                                            : std::to_string(label);
  }

  std::string table_of(const std::vector<Wrong>& found) const {
    std::string text = "| row, column | label | prediction |\n|---|---|---|\n";
    for (std::size_t i = 0; i < found.size(); ++i)
      text += fmt::format("| {}, {} | {} | {} |\n", i / columns + 1, i % columns + 1,
                          name_of(found[i].label), name_of(found[i].prediction));
    return text;
  }

  EvaluationPass pass_;
  std::vector<std::string> class_names_;
};

}  // namespace

std::unique_ptr<Extension> show_misclassified(std::unique_ptr<Iterator> batches,
                                              std::vector<std::string> class_names) {
  return std::make_unique<ShowMisclassified>(std::move(batches), std::move(class_names));
}

}  // namespace tasuki
