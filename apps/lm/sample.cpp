#include "lm/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tasuki/core/activity.hpp"

namespace tasuki::lm {
namespace {

// The scores of the byte that follows the text.
Tensor scores_after(Gpt& model, const std::string& text) {
  const std::int64_t length = std::min<std::int64_t>(std::ssize(text), model.settings().context);
  const Tensor ids = Tensor::empty({1, length}, DType::int32);
  for (std::int64_t i = 0; i < length; ++i)
    ids.data<std::int32_t>()[i] =
        static_cast<unsigned char>(text[text.size() - static_cast<std::size_t>(length - i)]);
  const Variable scores = model(Variable(ids.to(model.device())));
  return scores.value().slice(length - 1, length).to(Device::cpu()).to(DType::float32);
}

std::size_t draw(std::span<const float> scores, double temperature, double uniform) {
  const auto top = std::ranges::max_element(scores);
  if (temperature == 0) return static_cast<std::size_t>(top - scores.begin());
  std::vector<double> weights;
  double sum = 0;
  for (const float score : scores) {
    weights.push_back(std::exp(static_cast<double>(score - *top) / temperature));
    sum += weights.back();
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return i;
  }
  return weights.size() - 1;
}

}  // namespace

std::string sample_text(Gpt& model, const std::string& prompt, std::int64_t bytes,
                        double temperature, std::uint64_t seed) {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  std::mt19937_64 numbers(seed);
  std::string text = prompt;
  for (std::int64_t i = 0; i < bytes; ++i) {
    const Tensor scores = scores_after(model, text);
    const double uniform = static_cast<double>(numbers() >> 11) * 0x1p-53;
    text.push_back(static_cast<char>(draw(scores.span<float>(), temperature, uniform)));
    report_progress();
  }
  return text;
}

std::string printable(const std::string& text) {
  std::string shown;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (each == '\n' || each == '\t' || (byte >= 32 && byte < 127))
      shown.push_back(each);
    else
      shown += fmt::format("\\x{:02x}", byte);
  }
  return shown;
}

}  // namespace tasuki::lm
