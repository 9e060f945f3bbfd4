#include "training/bleu.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tasuki {
namespace {

using Sentences = std::vector<std::vector<std::int32_t>>;

struct Case {
  Sentences references, translations;
  double bleu;
};

// Values of sacreBLEU 2.6.0: BLEU(smooth_method="floor", smooth_value=0.1, tokenize="none") on
// words "w5", ... NLTK 3.10.4 has the same for the first four (corpus_bleu with method 1).
const Case cases[] = {
    {{{5, 6, 7, 8, 9, 10}}, {{5, 6, 7, 8, 9, 10}}, 1},
    {{{5, 6, 7, 8, 9, 10}, {4, 4, 5}}, {{5, 6, 7, 9, 10}, {4, 4, 4, 5}}, 0.303329426937},
    {{{1, 2, 3, 4}}, {{9, 9, 9, 9}}, 0},
    {{{2, 3, 4, 5, 6, 7, 8}}, {{2, 3, 9, 5}}, 0.0888191559654},
    {{{2, 3, 5}, {4, 5, 6, 7}}, {{2, 3, 5}, {4, 5, 6, 7}}, 1},
    {{{2, 3, 4, 5}, {7, 8}}, {{}, {7, 8, 9, 7, 8}}, 0.093025773757},
};

TEST(Bleu, MatchesSacreBleu) {
  for (const Case& test : cases) {
    BleuCounts counts;
    for (std::size_t i = 0; i < test.references.size(); ++i)
      counts.add(test.translations[i], test.references[i]);
    EXPECT_NEAR(counts.value(), test.bleu, 1e-11);
  }
}

TEST(Bleu, AddsCountsOfParts) {
  for (const Case& test : cases) {
    BleuCounts all;
    for (std::size_t i = test.references.size(); i-- > 0;) {
      BleuCounts one;
      one.add(test.translations[i], test.references[i]);
      all.add(one);
    }
    EXPECT_NEAR(all.value(), test.bleu, 1e-11);
  }
}

}  // namespace
}  // namespace tasuki
