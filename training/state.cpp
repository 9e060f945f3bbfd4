#include "tasuki/training/state.hpp"

#include <cstring>

#include "tasuki/core/error.hpp"

namespace tasuki {
namespace {

// All buffers one after the other, in plain order on the host.
Bytes pack(const std::vector<Module::NamedBuffer>& buffers) {
  Bytes bytes;
  for (const auto& [path, buffer] : buffers) {
    const Tensor host = buffer->to(Device::cpu()).plain();
    const auto* raw = static_cast<const std::byte*>(host.raw());
    bytes.insert(bytes.end(), raw, raw + host.bytes());
  }
  return bytes;
}

void unpack(const Bytes& bytes, const std::vector<Module::NamedBuffer>& buffers) {
  std::size_t at = 0;
  for (const auto& [path, buffer] : buffers) {
    const Tensor host = Tensor::empty(buffer->shape(), buffer->dtype());
    if (host.bytes() > bytes.size() - at)
      fail_everywhere(ErrorKind::data, "a rank's own buffers end at {}", path);
    if (host.bytes() > 0) std::memcpy(host.raw(), bytes.data() + at, host.bytes());
    buffer->copy_from(host);
    at += host.bytes();
  }
}

}  // namespace

void serialize_model(const Serializer& serializer, const Module& model) {
  for (const auto& [path, parameter] : model.parameters()) serializer(path, parameter->value());
  const auto buffers = model.buffers();
  for (const auto& [path, buffer] : buffers) serializer(path, *buffer);
  const Communicator* communicator = serializer.communicator();
  const std::string key = "buffers_of_rank";
  if (buffers.empty() || (serializer.is_loading() && !serializer.contains(key))) return;
  if (!serializer.is_loading() && communicator == nullptr) return;
  const std::vector<Bytes> parts = serializer.of_every_rank(key, pack(buffers));
  if (serializer.is_loading() && communicator &&
      parts.size() == static_cast<std::size_t>(communicator->size()))
    unpack(parts[static_cast<std::size_t>(communicator->rank())], buffers);
}

void serialize_optimizer(const Serializer& serializer, Optimizer& optimizer) {
  std::string name = optimizer.name();
  serializer("name", name);
  if (name != optimizer.name())
    fail_everywhere(ErrorKind::config,
                    "the snapshot is of a run with {}, this run uses {}: resume with the same "
                    "optimizer, or load the weights alone",
                    name, optimizer.name());
  std::int64_t t = optimizer.t();
  serializer("t", t);
  optimizer.set_t(t);
  const Serializer hyperparameters = serializer["hyperparameters"];
  for (const std::string& each : optimizer.hyperparameters()) {
    double value = optimizer.get(each);
    hyperparameters(each, value);
    if (serializer.is_loading()) optimizer.set(each, value);
  }
  for (const ParameterArena::Entry& entry : optimizer.arena().entries())
    for (const Optimizer::StateArray& state : optimizer.states())
      serializer[entry.path](
          state.name, ParameterArena::part(state.values, entry).reshape(entry.parameter->shape()));
}

}  // namespace tasuki
