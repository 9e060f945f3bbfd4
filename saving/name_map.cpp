#include "saving/name_map.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/named_file.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"

namespace tasuki {
namespace {

constexpr char star = '*';
constexpr std::string_view none = "-";

// A file from elsewhere may have names of any length, which each star would try.
constexpr std::size_t longest_name = 200;

// What the stars of the pattern are in the text, each as short as possible; nothing if the pattern
// does not fit, or the text is too long for a name.
std::optional<std::vector<std::string_view>> match(std::string_view pattern,
                                                   std::string_view text) {
  const std::size_t at = pattern.find(star);
  const std::string_view before = pattern.substr(0, at);
  if (text.size() > longest_name || !text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  if (at == pattern.npos)
    return text.empty() ? std::optional(std::vector<std::string_view>{}) : std::nullopt;
  for (std::size_t length = 1; length <= text.size(); ++length)
    if (auto rest = match(pattern.substr(at + 1), text.substr(length))) {
      rest->insert(rest->begin(), text.substr(0, length));
      return rest;
    }
  return std::nullopt;
}

// The pattern with these texts for its stars.
std::string filled(std::string_view pattern, const std::vector<std::string_view>& stars) {
  std::string text;
  auto next = stars.begin();
  for (const char c : pattern) {
    if (c == star)
      text += *next++;
    else
      text += c;
  }
  return text;
}

std::string with_stars_of(std::string_view pattern, std::vector<std::string_view> stars, char from,
                          char to) {
  std::vector<std::string> changed(stars.begin(), stars.end());
  for (std::string& each : changed) std::ranges::replace(each, from, to);
  return filled(pattern, {changed.begin(), changed.end()});
}

// The first name of the model's array that is in the file.
std::optional<NameMap::Name> name_in(const ArraySource& file, const NameMap& map,
                                     const std::string& model_name) {
  for (NameMap::Name& each : map.names_in_file(model_name))
    if (file.find(each.name)) return std::move(each);
  return std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view blanks = " \t\r";
  line = line.substr(0, line.find('#'));
  while (true) {
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(blanks)));
    line.remove_prefix(words.back().size());
  }
}

// The names of a GPT-2 without a head; with one they have a prefix.
constexpr std::string_view gpt2_names = R"(
wte.weight             = embed/W
wpe.weight             = position/W
h.*.ln_1.weight        = blocks/*/norm1/gamma
h.*.ln_1.bias          = blocks/*/norm1/beta
h.*.attn.c_attn.weight = blocks/*/qkv/W        transposed
h.*.attn.c_attn.bias   = blocks/*/qkv/b
h.*.attn.c_proj.weight = blocks/*/attention/W  transposed
h.*.attn.c_proj.bias   = blocks/*/attention/b
h.*.ln_2.weight        = blocks/*/norm2/gamma
h.*.ln_2.bias          = blocks/*/norm2/beta
h.*.mlp.c_fc.weight    = blocks/*/hidden/W     transposed
h.*.mlp.c_fc.bias      = blocks/*/hidden/b
h.*.mlp.c_proj.weight  = blocks/*/output/W     transposed
h.*.mlp.c_proj.bias    = blocks/*/output/b
ln_f.weight            = norm/gamma
ln_f.bias              = norm/beta
)";
// Scores of their own, or the embedding's where both are tied; masks, in older files.
constexpr std::string_view gpt2_head = R"(
lm_head.weight         = scores/W
transformer.wte.weight = scores/W
wte.weight             = scores/W
*.attn.bias            = -
*.attn.masked_bias     = -
)";

// The lines with a prefix before each name in the file.
std::string with_prefix(std::string_view prefix, std::string_view lines) {
  std::string text;
  for (const char c : lines) {
    if (!text.empty() && text.back() == '\n' && c != '\n') text += prefix;
    text += c;
  }
  return text;
}

}  // namespace

NameMap NameMap::parse(std::string_view text, std::string_view place) {
  constexpr std::ptrdiff_t most_stars = 3;  // each tries all lengths
  NameMap map;
  text = without_byte_order_mark(text);
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    const auto is_given = [&](std::string_view word) {
      return std::find(words.begin() + std::min<std::ptrdiff_t>(3, std::ssize(words)), words.end(),
                       word) != words.end();
    };
    const bool is_transposed = is_given("transposed"), is_optional = is_given("optional");
    if (words.size() < 3 || words[1] != "=" ||
        words.size() !=
            3U + static_cast<unsigned>(is_transposed) + static_cast<unsigned>(is_optional))
      fail(ErrorKind::data,
           "{}, line {}: expected \"NAME IN FILE = MODEL'S NAME\", and perhaps \"transposed\" or "
           "\"optional\", found {}",
           place, number, printable(line, 80));
    const auto stars = [&](std::size_t word) { return std::ranges::count(words[word], star); };
    const bool has_none = words[0] == none || words[2] == none;
    if (std::max(stars(0), stars(2)) > most_stars || (!has_none && stars(0) != stars(2)))
      fail(ErrorKind::data,
           "{}, line {}: expected as many stars on both sides, at most {}, found {}", place, number,
           most_stars, printable(line, 80));
    map.lines_.push_back(
        {std::string(words[0]), std::string(words[2]), is_transposed, is_optional});
  }
  return map;
}

std::vector<NameMap::Name> NameMap::names_in_file(std::string_view model_name) const {
  std::vector<Name> names;
  bool fits = false;
  for (const Line& line : lines_) {
    const auto stars = line.in_model == none ? std::nullopt : match(line.in_model, model_name);
    if (!stars) continue;
    fits = true;
    if (line.in_file == none) return {};
    names.push_back({with_stars_of(line.in_file, *stars, '/', '.'), line.is_transposed});
  }
  if (!fits) names.push_back({std::string(model_name)});
  return names;
}

std::vector<NameMap::Name> NameMap::names_in_model(std::string_view name_in_file) const {
  std::vector<Name> names;
  for (const Line& line : lines_)
    if (line.in_file != none && line.in_model != none)
      if (const auto stars = match(line.in_file, name_in_file))
        names.push_back({with_stars_of(line.in_model, *stars, '.', '/'), line.is_transposed});
  return names;
}

bool NameMap::may_lack(std::string_view model_name) const {
  return std::ranges::any_of(lines_, [&](const Line& line) {
    return (line.is_optional || line.in_file == none) && match(line.in_model, model_name);
  });
}

bool NameMap::ignores(std::string_view name_in_file) const {
  return std::ranges::any_of(lines_, [&](const Line& line) {
    return line.in_model == none && match(line.in_file, name_in_file);
  });
}

const std::vector<KnownNameMap>& known_name_maps() {
  static const std::vector<KnownNameMap> maps = {
      {"torchvision", NameMap::parse(R"(
*.weight              = */W
*.bias                = */b
*.weight              = */gamma
*.bias                = */beta
*.running_mean        = */avg_mean
*.running_var         = */avg_var
*.num_batches_tracked = */N      optional  # files before 2018 lack it
)",
                                     "torchvision's names")},
      {"gpt2", NameMap::parse(with_prefix("transformer.", gpt2_names) + std::string(gpt2_head) +
                                  std::string(gpt2_names),
                              "GPT-2's names")}};
  return maps;
}

NameMap read_name_map(const std::string& name_or_file) {
  const auto& maps = known_name_maps();
  if (name_or_file == tasuki_names) return {};
  const auto known = std::ranges::find(maps, name_or_file, &KnownNameMap::name);
  if (known != maps.end()) return known->map;
  return NameMap::parse(read_text_file(name_or_file), printable(name_or_file));
}

std::string fitting_map(const ArraySource& file, const std::vector<std::string>& model_names) {
  const auto count = [&](const NameMap& map) {
    return std::ranges::count_if(
        model_names, [&](const std::string& name) { return name_in(file, map, name).has_value(); });
  };
  std::string best = tasuki_names;
  std::ptrdiff_t most = count({});
  for (const auto& [name, map] : known_name_maps())
    if (const std::ptrdiff_t found = count(map); found > most) {
      best = name;
      most = found;
    }
  return best;
}

MappedSource::MappedSource(const ArraySource& file, NameMap map,
                           const std::vector<std::string>& model_names)
    : file_(file), map_(std::move(map)) {
  std::set<std::string> used;
  for (const std::string& name : model_names)
    if (const auto in_file = name_in(file_, map_, name)) {
      found_[name] = *in_file;
      names_.push_back(name);
      used.insert(in_file->name);
    }
  for (const std::string& name : file_.names())
    if (!used.contains(name) && !map_.ignores(name)) names_.push_back(name);
}

std::optional<ArrayType> MappedSource::find(const std::string& name) const {
  const auto found = found_.find(name);
  if (found == found_.end()) return std::nullopt;
  std::optional<ArrayType> type = file_.find(found->second.name);
  if (found->second.is_transposed && type->shape.rank() == 2)
    type->shape = Shape{type->shape[1], type->shape[0]};
  return type;
}

NpzValue MappedSource::read(const std::string& name) const {
  const auto found = found_.find(name);
  if (found == found_.end())
    fail(ErrorKind::data, "{} has no entry for {}", path().string(), printable(name));
  NpzValue value = file_.read(found->second.name);
  const auto* const tensor = std::get_if<Tensor>(&value);
  if (!found->second.is_transposed || tensor == nullptr) return value;
  return transposed(*tensor,
                    fmt::format("{} in {}", printable(found->second.name), path().string()));
}

Tensor transposed(const Tensor& matrix, std::string_view name) {
  if (matrix.shape().rank() != 2)
    fail(ErrorKind::data, "{}: expected a matrix, because it is transposed, found {}", name,
         matrix.shape().text());
  const Tensor from = matrix.to(Device::cpu()).plain();
  const std::int64_t rows = from.shape()[0], columns = from.shape()[1];
  Tensor to = Tensor::empty({columns, rows}, from.dtype());
  const std::size_t size = size_of(from.dtype());
  const auto* const source = static_cast<const std::byte*>(from.raw());
  auto* target = static_cast<std::byte*>(to.raw());
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = 0; row < rows; ++row, target += size)
      std::memcpy(target, source + static_cast<std::size_t>(row * columns + column) * size, size);
  return to;
}

}  // namespace tasuki
