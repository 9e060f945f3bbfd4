// A task without files: dates written in many ways, letter by letter, and the same dates in ISO
// 8601. "saturday, 5th of march 1977" is 1977-03-05.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/seq2seq/vocabulary.hpp"
#include "dataset/dataset.hpp"

namespace tasuki::seq2seq {

// A date from 1950 to 2049 in one of nine ways, and in ISO's form: a function of (seed, number). A
// tenth of all dates is held out: test examples have only these, training examples none of them.
std::pair<std::string, std::string> date_example(std::uint64_t seed, std::int64_t number,
                                                 bool is_test);

// The letters of both sides as vocabularies.
const Vocabulary& date_letters();
const Vocabulary& iso_letters();

std::shared_ptr<const Dataset> make_dates_dataset(std::uint64_t seed, std::int64_t count,
                                                  bool is_test);

}  // namespace tasuki::seq2seq
