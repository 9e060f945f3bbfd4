#include "communicator/run_on_root.hpp"

#include "communicator/communicator.hpp"
#include "communicator/outcome.hpp"
#include "communicator/text_bytes.hpp"

namespace tasuki {
namespace {

void throw_if_failed(const Bytes& message, const Communicator& communicator) {
  throw_if_failed(decode(bytes_to_text(message)), communicator.topology().shared_error_scope);
}

}  // namespace

Bytes run_on_root(Communicator& communicator, int root, const std::function<Bytes()>& work) {
  Bytes result, message;
  if (communicator.rank() == root)
    message = text_to_bytes(encode(outcome_of([&] { result = work(); })));
  throw_if_failed(bcast_bytes(communicator, message, root), communicator);
  return bcast_bytes(communicator, result, root);
}

void run_on_all(Communicator& communicator, const std::function<void()>& work) {
  for (const Bytes& message :
       allgather_bytes(communicator, text_to_bytes(encode(outcome_of(work)))))
    throw_if_failed(message, communicator);
}

}  // namespace tasuki
