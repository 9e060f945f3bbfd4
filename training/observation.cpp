#include "training/observation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "communicator/text_bytes.hpp"
#include "core/error.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

template <class T>
void put(Bytes& bytes, T value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof(T));
}

// Reads what `put` wrote; the bytes may come from a file.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }

  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size())
      fail(ErrorKind::data, "observations end after {} of {} bytes", bytes_.size(), count);
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

void Observation::add_known(std::string_view key, const Value& value) {
  auto at = values_.find(key);
  if (at == values_.end()) at = values_.emplace(std::string(key), Value{{}, 0, value.reach}).first;
  at->second.total.add(value.total);
  at->second.count += value.count;
}

void Observation::add_sum(std::string_view key, double sum, std::int64_t count) {
  has_numbers_of_host_ = true;
  add_known(key, {ExactSum(sum), count});
}

void Observation::add_sum(std::string_view key, const Tensor& sum, std::int64_t count) {
  add_known(key, {{}, count});
  add_scalar(key, Part::sum, sum, 1);
}

void Observation::add_mean(std::string_view key, const Tensor& mean, std::int64_t count) {
  add_known(key, {{}, count});
  add_scalar(key, Part::sum, mean, static_cast<double>(count));
}

void Observation::add_sum(std::string_view key, const Tensor& sum, const Tensor& count) {
  add_known(key, {});
  add_scalar(key, Part::sum, sum, 1);
  add_scalar(key, Part::count, count, 1);
}

void Observation::set(std::string_view key, double value) {
  for (LateParts& parts : late_)
    if (const auto at = parts.find(key); at != parts.end()) parts.erase(at);
  has_numbers_of_host_ = true;
  values_.insert_or_assign(std::string(key), Value{ExactSum(value), 1, Reach::job});
}

void Observation::add_scalar(std::string_view key, Part part, const Tensor& value, double factor) {
  TASUKI_CHECK(value.count() == 1, "{} is observed as a tensor of {}; a scalar was expected", key,
               value.shape().text());
  if (!value.device().is_cpu()) return add_term(late(part)[std::string(key)].terms, value, factor);
  has_numbers_of_host_ = true;
  const double found = factor * value.item();
  if (part == Part::sum)
    add_known(key, {ExactSum(found), 0});
  else
    add_known(key, {{}, std::llround(found)});
}

void Observation::add_journal(std::string_view key, Part part, const JournalSum& sum) {
  add_journal(late(part)[std::string(key)], sum);
}

void Observation::add_journal(Late& late, const JournalSum& sum) {
  if (late.journal.empty() || !late.journal.back().append(sum)) late.journal.push_back(sum);
}

void Observation::add(const Observation& other, std::string_view prefix) {
  for (const auto& [key, value] : other.values_) add_value_of(other, key, prefix);
}

void Observation::add_value_of(const Observation& other, std::string_view key,
                               std::string_view prefix) {
  const auto value = other.values_.find(key);
  if (value == other.values_.end()) return;
  const std::string name = std::string(prefix) + std::string(key);
  has_numbers_of_host_ = has_numbers_of_host_ || other.has_numbers_of_host_;
  add_known(name, value->second);
  for (const Part part : {Part::sum, Part::count}) {
    const auto found = other.late(part).find(key);
    if (found == other.late(part).end()) continue;
    Late& own = late(part)[name];
    for (const Term& term : found->second.terms) add_term(own.terms, term.value, term.factor);
    for (const JournalSum& sum : found->second.journal) add_journal(own, sum);
  }
}

const Observation::Terms& Observation::terms(std::string_view key, Part part) const {
  static const Terms none;
  const auto found = late(part).find(key);
  return found == late(part).end() ? none : found->second.terms;
}

void Observation::add_term(Terms& terms, const Tensor& value, double factor) {
  const auto at = std::ranges::find(terms, value.device(),
                                    [](const Term& term) { return term.value.device(); });
  if (at == terms.end()) {
    terms.push_back({value, factor});
    return;
  }
  Backend& device = backend(value.device());
  // A copy of this observation may refer to the same sum.
  if (!at->is_own || at->value.storage().use_count() > 1) {
    const Tensor sum = Tensor::zeros({}, DType::float64, value.device());
    device.accumulate_scalar(sum, at->value, at->factor);
    *at = {sum, 1, true};
  }
  device.accumulate_scalar(at->value, value, factor);
}

void Observation::clear() {
  values_.clear();
  for (LateParts& parts : late_) parts.clear();
  has_numbers_of_host_ = false;
}

void Observation::forget_own() {
  for (auto& [key, value] : values_) {
    if (value.reach != Reach::rank) continue;
    value = {};
    for (LateParts& parts : late_)
      if (const auto at = parts.find(key); at != parts.end()) parts.erase(at);
  }
}

void Observation::add_late(const Late& late, ExactSum& sum) {
  for (const Term& term : late.terms) sum.add(term.factor * term.value.item());
  for (const JournalSum& part : late.journal) part.add_to(sum);
}

const std::map<std::string, Observation::Value, std::less<>>& Observation::values() const {
  has_numbers_of_host_ = has_numbers_of_host_ || is_on_device();
  for (const auto& [key, parts] : late(Part::sum)) add_late(parts, values_.at(key).total);
  for (const auto& [key, parts] : late(Part::count)) {
    ExactSum count;
    add_late(parts, count);
    values_.at(key).count += std::llround(count.value());
  }
  for (LateParts& parts : late_) parts.clear();
  return values_;
}

std::optional<double> Observation::mean(std::string_view key) const {
  const auto at = values().find(key);
  if (at == values_.end() || at->second.count == 0) return std::nullopt;
  return at->second.mean();
}

Bytes Observation::encode() const {
  Bytes bytes;
  for (const auto& [key, value] : values()) {
    put(bytes, checked_cast<std::uint32_t>(key.size(), "length of a key"));
    const Bytes text = text_to_bytes(key);
    bytes.insert(bytes.end(), text.begin(), text.end());
    // The last part of the sum, the number of those before it, and these.
    const auto parts = value.total.parts();
    const std::size_t further = parts.empty() ? 0 : parts.size() - 1;
    put(bytes, parts.empty() ? 0.0 : parts.back());
    put(bytes, value.count);
    put(bytes, checked_cast<std::uint8_t>(2 * further + static_cast<std::size_t>(value.reach),
                                          "the number of a sum's parts"));
    for (const double part : parts.first(further)) put(bytes, part);
  }
  return bytes;
}

Observation Observation::decode(std::span<const std::byte> bytes) {
  Observation made;
  for (Reader reader(bytes); !reader.at_end();) {
    const std::string_view key = bytes_to_text(reader.take(reader.get<std::uint32_t>()));
    ExactSum sum(reader.get<double>());
    const auto count = reader.get<std::int64_t>();
    const auto reach_and_parts = reader.get<std::uint8_t>();
    for (int i = 0; i < reach_and_parts / 2; ++i) sum.add(reader.get<double>());
    made.add_known(key, {sum, count, reach_and_parts % 2 == 0 ? Reach::rank : Reach::job});
  }
  return made;
}

Observation Observation::join(const std::vector<Bytes>& parts) {
  Observation all;
  for (const Bytes& part : parts) {
    const Observation one = decode(part);
    for (const auto& [key, value] : one.values_)
      if (value.reach == Reach::rank || !all.values_.contains(key)) all.add_known(key, value);
  }
  return all;
}

Observation Observation::over_ranks(Communicator* communicator) const {
  Observation all = communicator && communicator->size() > 1
                        ? join(allgather_bytes(*communicator, encode()))
                        : *this;
  all.values();
  for (auto& [key, value] : all.values_) value.reach = Reach::job;
  return all;
}

std::vector<Observation> Observation::gather(std::span<const Observation> own,
                                             Communicator* communicator) {
  if (communicator == nullptr || communicator->size() == 1) return {own.begin(), own.end()};
  Bytes bytes;
  for (const Observation& one : own) {
    const Bytes encoded = one.encode();
    put(bytes, std::uint64_t{encoded.size()});
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  }
  const std::vector<Bytes> ranks = gather_bytes(*communicator, bytes);
  if (ranks.empty()) return {};
  std::vector<Reader> readers(ranks.begin(), ranks.end());
  std::vector<Observation> all;
  all.reserve(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::vector<Bytes> parts;
    for (Reader& reader : readers) {
      const auto part = reader.take(reader.get<std::uint64_t>());
      parts.emplace_back(part.begin(), part.end());
    }
    all.push_back(join(parts));
  }
  return all;
}

void Observation::serialize(const Serializer& serializer) {
  const std::vector<Bytes> parts = serializer.of_every_rank("of_rank", encode());
  if (!serializer.is_loading()) return;
  const Communicator* communicator = serializer.communicator();
  const std::size_t size = communicator ? static_cast<std::size_t>(communicator->size()) : 1;
  const std::size_t rank = communicator ? static_cast<std::size_t>(communicator->rank()) : 0;
  if (parts.size() == size)
    *this = decode(parts[rank]);
  else
    *this = rank == 0 ? join(parts) : Observation();
}

}  // namespace tasuki
