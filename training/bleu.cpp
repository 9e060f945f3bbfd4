#include "training/bleu.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace tasuki {
namespace {

using Ngrams = std::map<std::vector<std::int32_t>, std::int64_t>;

Ngrams ngrams(std::span<const std::int32_t> words, std::size_t order) {
  Ngrams found;
  for (std::size_t i = 0; i + order <= words.size(); ++i)
    ++found[{words.begin() + static_cast<std::ptrdiff_t>(i),
             words.begin() + static_cast<std::ptrdiff_t>(i + order)}];
  return found;
}

}  // namespace

void BleuCounts::add(std::span<const std::int32_t> translation,
                     std::span<const std::int32_t> reference) {
  for (std::size_t order = 1; order <= orders; ++order) {
    const Ngrams expected = ngrams(reference, order);
    for (const auto& [words, count] : ngrams(translation, order)) {
      candidates[order - 1] += count;
      if (const auto found = expected.find(words); found != expected.end())
        matches[order - 1] += std::min(count, found->second);
    }
  }
  length += std::ssize(translation);
  reference_length += std::ssize(reference);
}

void BleuCounts::add(const BleuCounts& other) {
  for (std::size_t i = 0; i < orders; ++i) {
    matches[i] += other.matches[i];
    candidates[i] += other.candidates[i];
  }
  length += other.length;
  reference_length += other.reference_length;
}

double BleuCounts::value() const {
  if (matches[0] == 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < orders; ++i)
    sum += std::log((matches[i] > 0 ? static_cast<double>(matches[i]) : 0.1) /
                    static_cast<double>(std::max<std::int64_t>(1, candidates[i])));
  const double brevity = length > reference_length ? 0
                                                   : 1 - static_cast<double>(reference_length) /
                                                             static_cast<double>(length);
  return std::exp(sum / orders + brevity);
}

}  // namespace tasuki
