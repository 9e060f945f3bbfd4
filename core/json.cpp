#include "core/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/utf8.hpp"

namespace tasuki {
namespace {

// Whether a text is ASCII without DEL.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x7f; });
}

// The value, with `convert` applied to texts and keys that are not plain.
template <class Json, class Convert>
void convert_texts(Json& value, const Convert& convert) {
  if (value.is_string()) {
    auto& text = value.template get_ref<std::string&>();
    if (!is_plain(text)) text = convert(text);
  } else if (value.is_array()) {
    for (Json& each : value) convert_texts(each, convert);
  } else if (value.is_object()) {
    Json converted = Json::object();
    for (auto& [key, each] : value.items()) {
      convert_texts(each, convert);
      converted[is_plain(key) ? key : convert(key)] = std::move(each);
    }
    value = std::move(converted);
  }
}

template <class Json>
bool has_plain_texts(const Json& value) {
  if (value.is_string()) return is_plain(value.template get_ref<const std::string&>());
  if (value.is_array()) return std::ranges::all_of(value, has_plain_texts<Json>);
  if (!value.is_object()) return true;
  return std::ranges::all_of(value.items(), [](const auto& item) {
    return is_plain(item.key()) && has_plain_texts(item.value());
  });
}

// dump() escapes C0. Other characters that control terminals also occur only in texts.
std::string with_escapes(const std::string& text) {
  std::string escaped;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view next = rest.substr(0, std::max<std::size_t>(1, utf8_length(rest)));
    const auto last = static_cast<unsigned char>(next.back());
    const bool is_c1 = next.size() == 2 && next.front() == '\xc2' && last < 0xa0;
    if (is_c1 || next == "\x7f")
      escaped += fmt::format("\\u{:04x}", last);
    else
      escaped += next;
    rest.remove_prefix(next.size());
  }
  return escaped;
}

template <class Json>
std::string text_of(const Json& value, int indent) {
  if (has_plain_texts(value)) return value.dump(indent);
  Json converted = value;
  convert_texts(converted, to_utf8);
  return with_escapes(converted.dump(indent));
}

// Checks the limits before a value is made. (Json::parse can call a function for each value, but
// then walks a whole list again for each object in it.)
template <class Json>
class LimitCheck : public nlohmann::json_sax<Json> {
 public:
  LimitCheck(std::string_view place, JsonLimits limits) : place_(place), limits_(limits) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(typename Json::number_integer_t) override { return count(); }
  bool number_unsigned(typename Json::number_unsigned_t) override { return count(); }
  bool number_float(typename Json::number_float_t, const typename Json::string_t&) override {
    return count();
  }
  bool string(typename Json::string_t&) override { return count(); }
  bool binary(typename Json::binary_t&) override { return count(); }
  bool key(typename Json::string_t&) override { return true; }
  bool start_object(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_array() override { return end(); }
  // Json::parse reports the error.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool count() {
    if (++values_ > limits_.values)
      fail(ErrorKind::data, "{}: it has more than {} values", place_, limits_.values);
    return true;
  }
  bool begin() {
    if (++levels_ > limits_.levels)
      fail(ErrorKind::data, "{}: it has more than {} levels of lists and objects", place_,
           limits_.levels);
    return count();
  }
  bool end() {
    --levels_;
    return true;
  }

  std::string_view place_;
  JsonLimits limits_;
  std::int64_t values_ = 0;
  int levels_ = 0;
};

template <class Json>
Json parse(std::string_view text, std::string_view place, JsonLimits limits) {
  LimitCheck<Json> check(place, limits);
  Json::sax_parse(text, &check);
  try {
    Json value = Json::parse(text);
    if (!is_plain(text) || text.find("\\u") != text.npos) convert_texts(value, from_utf8);
    return value;
  } catch (const typename Json::parse_error& error) {
    fail(ErrorKind::data, "{} is damaged: it is not JSON at byte {}", place, error.byte);
  } catch (const typename Json::out_of_range&) {
    fail(ErrorKind::data, "{} is damaged: a number in it is too large", place);
  }
}

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) {
  return text_of(value, indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of(value, indent);
}

nlohmann::json parse_json(std::string_view text, std::string_view place, JsonLimits limits) {
  return parse<nlohmann::json>(text, place, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view place,
                                          JsonLimits limits) {
  return parse<nlohmann::ordered_json>(text, place, limits);
}

std::optional<std::int64_t> integer_in(const nlohmann::json& value, std::int64_t least,
                                       std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number < least || number > most ? std::nullopt : std::optional(number);
}

}  // namespace tasuki
