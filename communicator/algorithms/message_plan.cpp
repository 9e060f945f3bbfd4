#include "communicator/algorithms/message_plan.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"

namespace tasuki {

std::int64_t MessagePlan::elements_sent() const {
  std::int64_t sum = 0;
  for (const Message& message : sends) sum += message.range.size();
  return sum;
}

void MessagePlan::append(const MessagePlan& next) {
  const std::int64_t sent = std::ssize(sends), received = std::ssize(receives);
  const std::int64_t pieces = std::ssize(need);
  const auto add = [pieces](std::vector<Message>& messages, const std::vector<Message>& others,
                            std::int64_t opposite) {
    for (Message message : others) {
      if (message.after > 0) message.after += opposite;
      if (message.pieces > 0) message.pieces += pieces;
      messages.push_back(message);
    }
  };
  add(sends, next.sends, received);
  add(receives, next.receives, sent);
  need.insert(need.end(), next.need.begin(), next.need.end());
  completion.insert(completion.end(), next.completion.begin(), next.completion.end());
}

void PlanBuilder::cut_at(std::int64_t element) {
  const auto after = history_.upper_bound(element);
  if (after == history_.begin()) return;
  const auto [begin, history] = *std::prev(after);
  if (begin == element || history.end <= element) return;
  history_[begin].end = element;
  history_.emplace_hint(after, element, history);
}

std::vector<PlanBuilder::History*> PlanBuilder::parts_of(Range range) {
  cut_at(range.begin);
  cut_at(range.end);
  std::vector<History*> parts;
  std::int64_t known = range.begin;
  for (auto part = history_.lower_bound(range.begin);
       part != history_.end() && part->first < range.end; ++part) {
    TASUKI_CHECK(part->first == known, "a message of elements [{}, {}) of which a part is new",
                 range.begin, range.end);
    known = part->second.end;
    parts.push_back(&part->second);
  }
  if (parts.empty()) {
    plan_.need.push_back(range);
    History& history = history_[range.begin];
    history = {.end = range.end, .pieces = std::ssize(plan_.need)};
    return {&history};
  }
  TASUKI_CHECK(known == range.end, "a message of elements [{}, {}) of which a part is new",
               range.begin, range.end);
  return parts;
}

void PlanBuilder::send(int peer, Range range, std::size_t array) {
  if (range.size() == 0) return;
  Message message{.peer = peer, .range = range, .array = array};
  for (History* history : parts_of(range)) {
    message.pieces = std::max(message.pieces, history->pieces);
    message.after = std::max(message.after, history->last_receive);
    history->last_send = std::ssize(plan_.sends) + 1;
  }
  plan_.sends.push_back(message);
}

void PlanBuilder::receive(int peer, Range range, Arrival arrival, std::size_t place) {
  if (range.size() == 0) return;
  Message message{.peer = peer, .range = range, .place = place, .arrival = arrival};
  for (History* history : parts_of(range)) {
    message.pieces = std::max(message.pieces, history->pieces);
    message.after = std::max(message.after, history->last_send);
    history->last_receive = std::ssize(plan_.receives) + 1;
  }
  plan_.receives.push_back(message);
}

MessagePlan PlanBuilder::build() {
  return build_where([](std::int64_t) { return true; }, true);
}

MessagePlan PlanBuilder::build_for(const std::vector<Range>& own) {
  const auto gets = [&own](std::int64_t element) {
    return std::ranges::any_of(own, [element](const Range& range) {
      return range.begin <= element && element < range.end;
    });
  };
  return build_where(gets, false);
}

template <class Gets>
MessagePlan PlanBuilder::build_where(const Gets& gets, bool is_common) {
  // A range is final with the last message that was received for it.
  std::vector<std::int64_t> final_elements(plan_.receives.size(), 0);
  for (const auto& [begin, history] : history_)
    if (history.last_receive > 0 && gets(begin))
      final_elements[static_cast<std::size_t>(history.last_receive - 1)] += history.end - begin;
  for (std::size_t i = 0; i < plan_.receives.size(); ++i) {
    Message& message = plan_.receives[i];
    TASUKI_CHECK(final_elements[i] == 0 || final_elements[i] == message.range.size(),
                 "elements [{}, {}) of which a part is received again", message.range.begin,
                 message.range.end);
    message.is_final = final_elements[i] > 0;
    message.is_common = is_common;
    if (message.is_final) plan_.completion.push_back(message.range);
    // Values that are only held change nothing yet.
    if (message.arrival == Arrival::held && !message.is_final) message.after = message.pieces = 0;
  }
  return std::move(plan_);
}

}  // namespace tasuki
