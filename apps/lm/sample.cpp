#include "apps/lm/sample.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <vector>

#include "core/activity.hpp"

namespace tasuki::lm {
namespace {

Tensor ids_of(std::string_view text) {
  Tensor ids = Tensor::empty({std::ssize(text)}, DType::int32);
  std::ranges::transform(text, ids.data<std::int32_t>(),
                         [](char each) { return static_cast<unsigned char>(each); });
  return ids;
}

// Scores of the next byte of a growing text. While the text fits into the model's context, a byte
// costs one position. After that each byte shifts all others to other positions, and the window is
// computed again.
class NextByte {
 public:
  explicit NextByte(Gpt& model) : model_(model), read_(model) {}

  Tensor scores_after(const std::string& text) {
    const std::int64_t context = model_.settings().context;
    const Tensor scores =
        std::ssize(text) <= context
            ? read_.read(
                  ids_of(std::string_view(text).substr(static_cast<std::size_t>(read_.length()))))
            : GptText(model_).read(ids_of(
                  std::string_view(text).substr(text.size() - static_cast<std::size_t>(context))));
    return scores.to(Device::cpu()).to(DType::float32);
  }

 private:
  Gpt& model_;
  GptText read_;
};

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
  NextByte next(model);
  return sample_text([&next](const std::string& text) { return next.scores_after(text); }, prompt,
                     bytes, temperature, seed);
}

std::string sample_text(const ScoresAfter& scores_after, const std::string& prompt,
                        std::int64_t bytes, double temperature, std::uint64_t seed) {
  std::mt19937_64 numbers(seed);
  std::string text = prompt;
  for (std::int64_t i = 0; i < bytes; ++i) {
    const Tensor scores = scores_after(text);
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
