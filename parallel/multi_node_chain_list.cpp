#include "parallel/multi_node_chain_list.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "communicator/bytes.hpp"
#include "communicator/number_bytes.hpp"
#include "parallel/functions/messages.hpp"

namespace tasuki {
namespace {

using Values = MultiNodeChainList::Values;

Bytes encode(const ChainPlan& plan) {
  std::vector<std::int64_t> numbers;
  for (const LinkRanks& link : plan)
    for (const std::vector<int>* const ranks : {&link.in, &link.out}) {
      numbers.push_back(std::ssize(*ranks));
      numbers.insert(numbers.end(), ranks->begin(), ranks->end());
    }
  return encode_numbers(numbers);
}

ChainPlan decode(const Bytes& bytes) {
  const std::vector<std::int64_t> numbers = decode_numbers(bytes);
  NumberReader reader(numbers);
  const auto ranks = [&reader] {
    const auto found = reader.next(static_cast<std::size_t>(reader.next()));
    return std::vector<int>(found.begin(), found.end());
  };
  ChainPlan plan;
  while (!reader.rest().empty()) {
    LinkRanks& link = plan.emplace_back();
    link.in = ranks();
    link.out = ranks();
  }
  return plan;
}

// One forward pass of this rank's components.
class Pass {
 public:
  // `sends`: what sends messages; null: this rank waits for their receivers.
  Pass(Communicator& communicator, SendQueue* sends, const Values& inputs)
      : communicator_(communicator), sends_(sends), inputs_(inputs) {}

  Values take(const std::vector<int>& ranks) {
    if (ranks.empty()) return inputs_;
    Values values;
    for (const int rank : ranks) {
      const Values from = rank == communicator_.rank() ? take_kept() : receive(rank);
      values.insert(values.end(), from.begin(), from.end());
    }
    return values;
  }

  void give(const Values& values, const std::vector<int>& ranks) {
    if (ranks.empty()) results_ = values;
    for (const int rank : ranks)
      if (rank == communicator_.rank())
        kept_.push_back(values);
      else
        delegates_.push_back(sends_ ? functions::send(values, *sends_, rank)
                                    : functions::send(values, communicator_, rank));
  }

  // A backward pass through any result reaches everything that was sent, and what was received even
  // if the component ignored it: the sender waits for its gradient.
  Values results() const {
    if (results_.empty()) {
      if (delegates_.empty()) return {};
      Variable all = delegates_.front();
      for (std::size_t i = 1; i < delegates_.size(); ++i)
        all = functions::pseudo_connect(delegates_[i], all);
      return {all};
    }
    Values connected = results_;
    for (const Variable& delegate : delegates_)
      connected = functions::pseudo_connect(delegate, connected);
    return connected;
  }

 private:
  Values receive(int rank) {
    functions::Received received =
        sends_ ? functions::receive(*sends_, rank) : functions::receive(communicator_, rank);
    delegates_.push_back(std::move(received.delegate));
    return std::move(received.values);
  }
  Values take_kept() {
    Values values = std::move(kept_.front());
    kept_.pop_front();
    return values;
  }

  Communicator& communicator_;
  SendQueue* sends_;
  const Values& inputs_;
  std::deque<Values> kept_;  // of this rank for itself
  Values results_;
  Values delegates_;  // of messages, sent and received
};

}  // namespace

MultiNodeChainList& MultiNodeChainList::add_link(const std::string& name,
                                                 std::unique_ptr<Layer> layer,
                                                 const LinkRanks& ranks) {
  TASUKI_CHECK(layer != nullptr, "no layer was given for {}", name);
  Layer& one = *layer;
  return add_link(
      name, std::move(layer),
      [&one, name](const Values& inputs) -> Values {
        if (inputs.size() != 1)
          fail(ErrorKind::usage,
               "component {} takes one value, found {}; give add_link() a function of several",
               name, inputs.size());
        return {one(inputs[0])};
      },
      ranks);
}

MultiNodeChainList& MultiNodeChainList::add_link(const std::string& name,
                                                 std::unique_ptr<Module> module,
                                                 Component component, const LinkRanks& ranks) {
  TASUKI_CHECK(module != nullptr, "no module was given for {}", name);
  add_link(std::move(component), ranks);
  add(name, *module);
  modules_.push_back(std::move(module));
  return *this;
}

MultiNodeChainList& MultiNodeChainList::add_link(Component component, const LinkRanks& ranks) {
  TASUKI_CHECK(component != nullptr, "no function was given for a component");
  // The comparison of plans is collective, so one rank alone cannot change its own.
  TASUKI_CHECK(!is_checked_, "add_link() after the model's first pass; add all components before");
  for (const std::vector<int>* const peers : {&ranks.in, &ranks.out})
    for (const int peer : *peers)
      if (peer < 0 || peer >= communicator_.size())
        fail(ErrorKind::usage, "add_link: rank {} of {} ranks; expected 0 to {}", peer,
             communicator_.size(), communicator_.size() - 1);
  if (ranks.out.empty() &&
      std::ranges::any_of(plan_, [](const LinkRanks& link) { return link.out.empty(); }))
    fail(ErrorKind::usage,
         "add_link: a second component without ranks to send to; only one can have the model's "
         "results");
  components_.push_back(std::move(component));
  plan_.push_back(ranks);
  return *this;
}

std::vector<ChainPlan> MultiNodeChainList::plans_of_all() const {
  std::vector<ChainPlan> plans;
  for (const Bytes& each : allgather_bytes(communicator_, encode(plan_)))
    plans.push_back(decode(each));
  return plans;
}

void MultiNodeChainList::check_plans() {
  if (is_checked_) return;
  if (const auto deadlock = find_deadlock(plans_of_all()))
    fail_everywhere(ErrorKind::usage, "the model's components wait for each other: {}", *deadlock);
  is_checked_ = true;
}

MultiNodeChainList::Values MultiNodeChainList::forward(const Values& inputs) {
  check_plans();
  Pass pass(communicator_, sends_, inputs);
  for (std::size_t i = 0; i < components_.size(); ++i)
    pass.give(components_[i](pass.take(plan_[i].in)), plan_[i].out);
  return pass.results();
}

Variable MultiNodeChainList::forward(const Variable& x) {
  const Values results = forward(x.defined() ? Values{x} : Values());
  if (results.size() != 1)
    fail(ErrorKind::usage, "the model has {} results; call forward() with a list of values",
         results.size());
  return results[0];
}

}  // namespace tasuki
