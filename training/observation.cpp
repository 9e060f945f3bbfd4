#include "tasuki/training/observation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/cast.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/tensor/backend.hpp"

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

void Observation::add(std::string_view key, double sum, std::int64_t count, Reach reach) {
  auto at = values_.find(key);
  if (at == values_.end()) at = values_.emplace(std::string(key), Value{0, 0, reach}).first;
  at->second.sum += sum;
  at->second.count += count;
}

void Observation::add(std::string_view key, const Tensor& value, double factor, std::int64_t count,
                      Reach reach) {
  TASUKI_CHECK(value.count() == 1, "{} is observed as a tensor of {}; a scalar was expected", key,
               value.shape().text());
  if (value.device().is_cpu()) return add(key, factor * value.item(), count, reach);
  add(key, 0, count, reach);
  add_term(terms_[std::string(key)], value, factor);
}

void Observation::add(std::string_view key, const JournalSum& sum, std::int64_t count) {
  add(key, 0, count);
  add_journal(std::string(key), sum);
}

void Observation::add_journal(const std::string& key, const JournalSum& sum) {
  std::vector<JournalSum>& sums = journal_[key];
  if (sums.empty() || !sums.back().append(sum)) sums.push_back(sum);
}

void Observation::add(const Observation& other, std::string_view prefix) {
  for (const auto& [key, value] : other.values_) add_value_of(other, key, prefix);
}

void Observation::add_value_of(const Observation& other, std::string_view key,
                               std::string_view prefix) {
  const auto value = other.values_.find(key);
  if (value == other.values_.end()) return;
  const std::string name = std::string(prefix) + std::string(key);
  add(name, value->second.sum, value->second.count, value->second.reach);
  if (const auto terms = other.terms_.find(key); terms != other.terms_.end())
    for (const Term& term : terms->second) add_term(terms_[name], term.value, term.factor);
  if (const auto sums = other.journal_.find(key); sums != other.journal_.end())
    for (const JournalSum& sum : sums->second) add_journal(name, sum);
}

void Observation::add_term(Terms& terms, const Tensor& value, double factor) {
  const auto at = std::ranges::find(terms, value.device(),
                                    [](const Term& term) { return term.value.device(); });
  if (at == terms.end()) {
    terms.push_back({value, factor});
    return;
  }
  Backend& device = backend(value.device());
  // A copy of this observation may hold the same sum.
  if (!at->is_own || at->value.storage().use_count() > 1) {
    const Tensor sum = Tensor::zeros({}, DType::float64, value.device());
    device.accumulate_scalar(sum, at->value, at->factor);
    *at = {sum, 1, true};
  }
  device.accumulate_scalar(at->value, value, factor);
}

void Observation::clear() {
  values_.clear();
  terms_.clear();
  journal_.clear();
}

const std::map<std::string, Observation::Value, std::less<>>& Observation::values() const {
  for (const auto& [key, terms] : terms_)
    for (const Term& term : terms) values_.at(key).sum += term.factor * term.value.item();
  for (const auto& [key, sums] : journal_)
    for (const JournalSum& sum : sums) sum.add_to(values_.at(key).sum);
  terms_.clear();
  journal_.clear();
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
    put(bytes, value.sum);
    put(bytes, value.count);
    put(bytes, value.reach);
  }
  return bytes;
}

Observation Observation::decode(std::span<const std::byte> bytes) {
  Observation made;
  for (Reader reader(bytes); !reader.at_end();) {
    const std::string_view key = bytes_to_text(reader.take(reader.get<std::uint32_t>()));
    const auto sum = reader.get<double>();
    const auto count = reader.get<std::int64_t>();
    made.add(key, sum, count, reader.get<std::uint8_t>() == 0 ? Reach::rank : Reach::job);
  }
  return made;
}

Observation Observation::join(const std::vector<Bytes>& parts) {
  Observation all;
  for (const Bytes& part : parts) {
    const Observation one = decode(part);
    for (const auto& [key, value] : one.values_)
      if (value.reach == Reach::rank || !all.values_.contains(key))
        all.add(key, value.sum, value.count, value.reach);
  }
  return all;
}

Observation Observation::over_ranks(Communicator* communicator) const {
  Observation all = communicator && communicator->size() > 1
                        ? join(communicator->allgather_bytes(encode()))
                        : *this;
  all.values();
  for (auto& [key, value] : all.values_) value.reach = Reach::job;
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
