// Names of the values of a flag with a fixed set of choices.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace tasuki::program {

template <class T>
struct Choice {
  const char* name;
  T value;
};

// `value` is one of `choices`.
template <class T>
const char* name_of(const std::vector<Choice<T>>& choices, const T& value) {
  return std::ranges::find(choices, value, &Choice<T>::value)->name;
}

}  // namespace tasuki::program
