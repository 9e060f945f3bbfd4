#include "tools/diff/arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <variant>

#include "core/printable.hpp"
#include "tensor/half.hpp"

namespace tasuki::diff {
namespace {

// Numbers that are neighbours are mapped to neighbouring integers; both zeros to 0.
template <class Bits>
std::int64_t place_of(Bits bits) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto magnitude = static_cast<std::int64_t>(bits & static_cast<Bits>(~sign));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::uint64_t distance(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(std::max(a, b)) - static_cast<std::uint64_t>(std::min(a, b));
}

// `Bits`: an unsigned integer of an element's size. `value`: the element as a number.
template <class Bits, class Value>
void compare_elements(ArrayDifference& found, const Tensor& a, const Tensor& b, bool has_ulps,
                      const Value& value) {
  const auto* const raw_a = static_cast<const std::byte*>(a.raw());
  const auto* const raw_b = static_cast<const std::byte*>(b.raw());
  std::int64_t first = -1;
  std::uint64_t ulps = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    Bits bits_a, bits_b;
    const std::size_t at = static_cast<std::size_t>(i) * sizeof(Bits);
    std::memcpy(&bits_a, raw_a + at, sizeof(Bits));
    std::memcpy(&bits_b, raw_b + at, sizeof(Bits));
    if (bits_a == bits_b) continue;
    if (found.differing++ == 0) first = i;
    const double x = value(bits_a), y = value(bits_b);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      ++found.not_finite;
      continue;
    }
    const double difference = std::abs(x - y), larger = std::max(std::abs(x), std::abs(y));
    found.absolute = std::max(found.absolute, difference);
    if (larger > 0) found.relative = std::max(found.relative, difference / larger);
    if (has_ulps) ulps = std::max(ulps, distance(place_of(bits_a), place_of(bits_b)));
  }
  if (has_ulps && found.differing > found.not_finite) found.ulps = ulps;
  if (first < 0) return;
  found.first.resize(static_cast<std::size_t>(a.shape().rank()));
  for (int axis = a.shape().rank() - 1; axis >= 0; --axis) {
    found.first[static_cast<std::size_t>(axis)] = first % a.shape()[axis];
    first /= a.shape()[axis];
  }
}

void compare_elements(ArrayDifference& found, const Tensor& a, const Tensor& b) {
  switch (a.dtype()) {
    case DType::float32:
      return compare_elements<std::uint32_t>(found, a, b, true, [](std::uint32_t bits) {
        return static_cast<double>(std::bit_cast<float>(bits));
      });
    case DType::float64:
      return compare_elements<std::uint64_t>(
          found, a, b, true, [](std::uint64_t bits) { return std::bit_cast<double>(bits); });
    case DType::float16:
      return compare_elements<std::uint16_t>(found, a, b, true, [](std::uint16_t bits) {
        return static_cast<double>(float_from_half(bits));
      });
    case DType::bfloat16:
      return compare_elements<std::uint16_t>(found, a, b, true, [](std::uint16_t bits) {
        return static_cast<double>(float_from_bfloat16(bits));
      });
    case DType::int32:
      return compare_elements<std::uint32_t>(found, a, b, false, [](std::uint32_t bits) {
        return static_cast<double>(std::bit_cast<std::int32_t>(bits));
      });
    case DType::int64:
      return compare_elements<std::uint64_t>(found, a, b, false, [](std::uint64_t bits) {
        return static_cast<double>(std::bit_cast<std::int64_t>(bits));
      });
    case DType::uint8:
      return compare_elements<std::uint8_t>(
          found, a, b, false, [](std::uint8_t bits) { return static_cast<double>(bits); });
  }
}

constexpr std::string_view models = "updater/model:", optimizers = "updater/optimizer:";

// An entry of a saved state: "updater/optimizer:main/predictor/l1/W/m" is {false, "main",
// "predictor/l1/W/m"}.
struct Entry {
  std::string name;  // in the file
  bool is_weight = true;
  std::string owner, path;
};

bool is_saved_state(const std::vector<std::string>& names) {
  return std::ranges::any_of(names,
                             [](const std::string& name) { return name.starts_with(models); });
}

std::vector<Entry> entries_of(const ArraySource& source) {
  const std::vector<std::string> names = source.names();
  const bool is_saved = is_saved_state(names);
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    Entry entry{name, true, "", name};
    if (is_saved) {
      entry.is_weight = name.starts_with(models);
      if (!entry.is_weight && !name.starts_with(optimizers)) continue;
      const std::string rest = name.substr((entry.is_weight ? models : optimizers).size());
      const std::size_t slash = std::min(rest.find('/'), rest.size() - 1);
      entry.owner = rest.substr(0, slash);
      entry.path = rest.substr(slash + 1);
      if (entry.path.find("_of_rank") != std::string::npos) continue;
    }
    const auto type = source.find(name);
    if (type && (type->dtype || !type->unreadable.empty())) entries.push_back(std::move(entry));
  }
  return entries;
}

// States lie in the arena's order, which is another one than the model's: each follows its
// parameter, and what belongs to no parameter comes first.
void sort(std::vector<Entry>& entries) {
  std::map<std::string, std::size_t> places;  // of weights
  for (const Entry& entry : entries)
    if (entry.is_weight) places.emplace(entry.owner + '/' + entry.path, places.size() + 1);
  const auto place = [&](const Entry& entry) {
    if (entry.is_weight) return std::pair(false, std::size_t{0});
    const auto found =
        places.find(entry.owner + '/' +
                    entry.path.substr(0, std::min(entry.path.rfind('/'), entry.path.size())));
    return std::pair(true, found == places.end() ? 0 : found->second);
  };
  std::ranges::stable_sort(entries, {}, place);
}

bool are_several(const std::vector<Entry>& entries) {
  return std::ranges::any_of(
      entries, [&](const Entry& entry) { return entry.owner != entries.front().owner; });
}

Tensor read_array(const ArraySource& source, const std::string& name) {
  const NpzValue value = source.read(name);
  const Tensor* const array = std::get_if<Tensor>(&value);
  return array ? array->plain() : Tensor();
}

}  // namespace

std::optional<ArrayDifference> compare_arrays(const std::string& name, const Tensor& a,
                                              const Tensor& b) {
  ArrayDifference found{.name = name, .what = "", .shape = a.shape(), .dtype = a.dtype()};
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    found.what = fmt::format("{} {} in the first, {} {} in the second", name_of(a.dtype()),
                             a.shape().text(), name_of(b.dtype()), b.shape().text());
    return found;
  }
  if (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0) return std::nullopt;
  compare_elements(found, a, b);
  return found;
}

ArraysComparison compare_sources(const ArraySource& a, const ArraySource& b) {
  std::vector<Entry> entries = entries_of(a);
  std::map<std::string, bool> in_b;  // whether it is in the first, too
  for (const Entry& entry : entries_of(b)) in_b.emplace(entry.name, false);
  for (const Entry& entry : entries)
    if (const auto found = in_b.find(entry.name); found != in_b.end()) found->second = true;
  std::vector<Entry> all = entries;
  for (Entry& entry : entries_of(b))
    if (!in_b.at(entry.name)) all.push_back(std::move(entry));
  sort(all);
  const bool shows_owner = !all.empty() && are_several(all);

  ArraysComparison comparison;
  for (const Entry& entry : all) {
    const std::string name = shows_owner ? entry.owner + '/' + entry.path : entry.path;
    const auto add = [&](std::string what) {
      comparison.differing.push_back({.name = name, .what = std::move(what)});
    };
    ++comparison.compared;
    const auto type_a = a.find(entry.name), type_b = b.find(entry.name);
    if (!type_a || !type_b) {
      add(type_a ? "only in the first" : "only in the second");
      continue;
    }
    if (!type_a->unreadable.empty() || !type_b->unreadable.empty()) {
      add("cannot be compared: " +
          (type_a->unreadable.empty() ? type_b->unreadable : type_a->unreadable));
      continue;
    }
    const Tensor in_first = read_array(a, entry.name), in_second = read_array(b, entry.name);
    if (!in_first.defined() || !in_second.defined()) {
      add("a text in one of the two");
      continue;
    }
    if (auto found = compare_arrays(name, in_first, in_second))
      comparison.differing.push_back(std::move(*found));
  }
  return comparison;
}

std::string text_of(const ArrayDifference& found) {
  if (!found.what.empty()) return found.what;
  std::string text;
  if (found.shape.rank() == 0)
    text = "differs";
  else
    text = fmt::format("{} of {} elements, first [{}]", found.differing, found.shape.count(),
                       fmt::join(found.first, ", "));
  if (found.differing > found.not_finite) {
    text +=
        fmt::format("; largest difference {:.3g}, relative {:.3g}", found.absolute, found.relative);
    if (found.ulps) text += fmt::format(", {} ulp", *found.ulps);
  }
  if (found.not_finite > 0)
    text += fmt::format("; {} with a number that is not finite", found.not_finite);
  return text;
}

}  // namespace tasuki::diff
