// The culprits of a stall, from what is known about each rank.

#include "job/stall.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "job/stall_text.hpp"

namespace tasuki {
namespace {

constexpr double limit = 10, silent_limit = 3;

RankView at(Phase phase, double still = 12) {
  RankView view{.host = "here", .is_known = true};
  view.activity.phase = phase;
  view.still = still;
  return view;
}

RankView in(Waiting kind, std::int64_t number = 5, std::uint64_t communicator = 1 << 8) {
  RankView view = at(Phase::computing);
  view.activity.waiting = kind;
  view.activity.number = number;
  view.activity.communicator = communicator;
  return view;
}

RankView silent(RankView view) {
  view.silent = 11;
  return view;
}

RankView unknown() {
  return {.host = "there"};
}

using Ranks = std::vector<RankView>;
using Culprits = std::vector<int>;

std::optional<Stall> find(const Ranks& ranks) {
  return find_stall(ranks, limit, silent_limit);
}

Culprits culprits_of(const Ranks& ranks) {
  const auto stall = find(ranks);
  EXPECT_TRUE(stall && stall->is_certain);
  return stall ? stall->culprits : Culprits{-1};
}

std::string said(const Ranks& ranks) {
  return describe_stall(find(ranks).value(), ranks, silent_limit);
}

TEST(FindStall, FindsNoneWhileAnyRankMakesProgress) {
  EXPECT_FALSE(find({in(Waiting::allreduce), at(Phase::loading, 9.9)}));
  EXPECT_TRUE(find({in(Waiting::allreduce), at(Phase::loading)}));
}

TEST(FindStall, CountsSecondsSinceTheLastProgress) {
  EXPECT_EQ(find({at(Phase::loading, 30), at(Phase::loading, 11)})->seconds, 11);
}

TEST(FindStall, FindsNoneWhenNobodyIsHeldUp) {
  EXPECT_FALSE(find({at(Phase::own_work)}));
  EXPECT_FALSE(find({at(Phase::own_work), at(Phase::extension)}));
  // run_job has a separate limit for ranks that have returned.
  EXPECT_FALSE(find({at(Phase::own_work), in(Waiting::program_end)}));
  EXPECT_TRUE(find({at(Phase::own_work), in(Waiting::barrier)}));
  EXPECT_TRUE(find({at(Phase::loading)}));
}

TEST(FindStall, BlamesRanksThatWaitForNobody) {
  EXPECT_EQ(culprits_of({in(Waiting::allreduce), at(Phase::loading), in(Waiting::allreduce)}),
            Culprits{1});
  EXPECT_EQ(culprits_of({in(Waiting::gpu), at(Phase::own_work), at(Phase::evaluating)}),
            (Culprits{1, 2}));
}

TEST(FindStall, BlamesSilentRankWhateverItDidLast) {
  EXPECT_EQ(culprits_of({in(Waiting::allreduce), silent(in(Waiting::allreduce))}), Culprits{1});
}

TEST(FindStall, BlamesRanksThatHaveReturned) {
  EXPECT_EQ(culprits_of({in(Waiting::program_end, 0, 0), in(Waiting::allreduce)}), Culprits{0});
}

TEST(FindStall, BlamesRanksBehindOrInAnotherCollective) {
  EXPECT_EQ(
      culprits_of({in(Waiting::barrier, 5), in(Waiting::barrier, 4), in(Waiting::barrier, 4)}),
      (Culprits{1, 2}));
  EXPECT_EQ(culprits_of({in(Waiting::barrier), in(Waiting::bcast), in(Waiting::barrier)}),
            Culprits{1});
}

TEST(FindStall, BlamesRanksThatOweAMessage) {
  const Ranks two = {in(Waiting::recv, 1), in(Waiting::barrier, 3)};
  EXPECT_EQ(culprits_of(two), Culprits{1});
  EXPECT_EQ(said(two),
            "rank 1 on here is waiting in barrier number 3 while rank 0 waits in recv from rank 1");
  // Each waits for the next one's gradient, and the last left out its backward pass.
  EXPECT_EQ(culprits_of({in(Waiting::recv, 1), in(Waiting::recv, 2), in(Waiting::recv, 3),
                         in(Waiting::barrier, 3)}),
            Culprits{3});
  // Most ranks are where the one is that owes a message.
  const Ranks most = {in(Waiting::barrier), in(Waiting::barrier), in(Waiting::recv, 3, 2 << 8),
                      in(Waiting::barrier)};
  EXPECT_EQ(culprits_of(most), Culprits{3});
  EXPECT_EQ(said(most),
            "rank 3 on here is waiting in barrier number 5 while rank 2 waits in recv from rank 3");
}

TEST(FindStall, BlamesNobodyInADeadlock) {
  const Ranks two = {in(Waiting::recv, 1), in(Waiting::send, 0)};
  EXPECT_EQ(culprits_of(two), Culprits{});
  EXPECT_EQ(said(two), "the ranks wait for each other");
  // Of any rank: nobody in particular.
  EXPECT_EQ(culprits_of({in(Waiting::recv, -1), in(Waiting::barrier)}), Culprits{});
  const Ranks all = {in(Waiting::allreduce), in(Waiting::allreduce)};
  EXPECT_EQ(culprits_of(all), Culprits{});
  EXPECT_EQ(said(all), "no rank is missing while 2 ranks wait in allreduce number 5");
}

TEST(FindStall, MarksStallsThatMayBeWork) {
  EXPECT_TRUE(find({at(Phase::own_work), in(Waiting::barrier)})->may_be_work);
  EXPECT_TRUE(find({at(Phase::extension), in(Waiting::bcast), in(Waiting::bcast)})->may_be_work);
  EXPECT_TRUE(find({at(Phase::loading)})->may_be_work);
  EXPECT_FALSE(find({silent(at(Phase::own_work)), in(Waiting::barrier)})->may_be_work);
  EXPECT_FALSE(find({at(Phase::loading), in(Waiting::barrier)})->may_be_work);
  EXPECT_FALSE(find({silent(at(Phase::loading))})->may_be_work);
  EXPECT_FALSE(find({in(Waiting::recv), in(Waiting::barrier)})->may_be_work);
}

TEST(FindStall, IsUncertainAboutUnknownRanks) {
  const Ranks ranks = {in(Waiting::allreduce), in(Waiting::allreduce), unknown()};
  EXPECT_FALSE(find(ranks)->is_certain);
  EXPECT_EQ(said(ranks),
            "nothing is known about rank 2 on there while 2 ranks wait in allreduce number 5");
  EXPECT_EQ(culprits_of({in(Waiting::allreduce), at(Phase::loading), unknown()}), Culprits{1});
}

TEST(FindSilence, FindsSilentRankWhateverOthersDo) {
  EXPECT_FALSE(find_silence(Ranks{at(Phase::loading, 0), in(Waiting::allreduce)}, limit));
  const auto found =
      find_silence(Ranks{at(Phase::loading, 0), silent(in(Waiting::allreduce)), unknown()}, limit);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->culprits, Culprits{1});
  EXPECT_EQ(found->seconds, 11);
  EXPECT_FALSE(find_silence(Ranks{silent(at(Phase::loading))}, 11.5));
}

// It may have no watchdog thread.
TEST(FindSilence, IgnoresRanksThatMakeProgress) {
  EXPECT_FALSE(find_silence(Ranks{silent(at(Phase::loading, 1)), in(Waiting::allreduce)}, limit));
}

TEST(FindSilence, IgnoresDebuggedAndEndedRanks) {
  RankView traced = silent(in(Waiting::allreduce));
  traced.is_traced = true;
  EXPECT_FALSE(find_silence(Ranks{traced, in(Waiting::allreduce)}, limit));
  EXPECT_FALSE(find_silence(Ranks{silent(in(Waiting::mpi_finalize)), in(Waiting::gpu)}, limit));
}

TEST(FindStall, IgnoresRanksWhoseWatchdogHasEnded) {
  const RankView ended = silent(in(Waiting::mpi_finalize));
  EXPECT_FALSE(find({ended, at(Phase::own_work)}));
  EXPECT_TRUE(find({ended, at(Phase::own_work), in(Waiting::barrier)})->may_be_work);
  EXPECT_EQ(culprits_of({ended, at(Phase::own_work), in(Waiting::barrier)}), (Culprits{1}));
  EXPECT_EQ(culprits_of({ended, in(Waiting::recv, 0)}), Culprits{0});
  EXPECT_FALSE(find({ended, in(Waiting::recv), unknown()})->is_certain);
  EXPECT_NE(said({ended, in(Waiting::recv, 0)}).find("rank 0 on here has ended its JobGuard"),
            std::string::npos);
  EXPECT_TRUE(find({ended, in(Waiting::mpi_finalize)})) << "MPI_Finalize hangs";
  EXPECT_TRUE(find({in(Waiting::mpi_finalize), at(Phase::own_work)}));
}

TEST(UpdateSeconds, RestartOnProgressOrHeartbeat) {
  RankView view = silent(at(Phase::loading));
  RankActivity seen{.activity = view.activity};
  update(view, seen);
  EXPECT_EQ(view.still, 12);
  EXPECT_EQ(view.silent, 11);
  ++seen.activity.beats;
  update(view, seen);
  EXPECT_EQ(view.still, 12);
  EXPECT_EQ(view.silent, 0);
  ++seen.activity.moves;
  update(view, seen);
  EXPECT_EQ(view.still, 0);
  RankView first = unknown();
  first.still = first.silent = 20;
  update(first, seen);
  EXPECT_TRUE(first.is_known);
  EXPECT_EQ(first.still, 0);
  EXPECT_EQ(first.silent, 0);
}

TEST(UpdateSeconds, IgnoresNewsThatWasOvertaken) {
  RankView view = unknown();
  RankActivity seen{.activity = in(Waiting::mpi_finalize).activity};
  seen.activity.moves = 7;
  update(view, seen);
  RankActivity older{.activity = at(Phase::own_work).activity};
  older.activity.moves = 6;
  update(view, older);
  EXPECT_EQ(view.activity.waiting, Waiting::mpi_finalize);
}

TEST(UpdateSeconds, RestartWhenADebuggerDetaches) {
  RankView view = silent(at(Phase::loading));
  RankActivity seen{.activity = view.activity, .is_traced = true};
  update(view, seen);
  EXPECT_EQ(view.silent, 11);
  seen.is_traced = false;
  update(view, seen);
  EXPECT_EQ(view.still, 0);
  EXPECT_EQ(view.silent, 0);
}

TEST(FindStall, MarksStallsWithADebugger) {
  RankView traced = silent(at(Phase::loading));
  EXPECT_FALSE(find({traced, in(Waiting::allreduce)})->is_debugged);
  traced.is_traced = true;
  EXPECT_TRUE(find({traced, in(Waiting::allreduce)})->is_debugged);
  EXPECT_EQ(
      said({traced, in(Waiting::allreduce)}),
      "rank 0 on here is stopped by a debugger and was last seen loading a batch while rank 1 "
      "waits in allreduce number 5");
}

TEST(StallText, NamesSilentHost) {
  EXPECT_EQ(
      said({in(Waiting::barrier), silent(at(Phase::loading)), silent(at(Phase::computing))}),
      "ranks 1, 2 on here give no sign of life (they were stopped, or their machine is lost); "
      "rank 1 was last seen loading a batch while rank 0 waits in barrier number 5");
}

TEST(StallText, NamesTheCulpritItsPlaceAndWaitingRanks) {
  RankView loading = at(Phase::loading);
  loading.activity.epoch = 2;
  loading.activity.iteration = 57;
  EXPECT_EQ(said({in(Waiting::sum_gradients, 56), loading}),
            "rank 1 on here is loading a batch (epoch 2, iteration 57) while rank 0 waits in "
            "sum_gradients number 56");
  EXPECT_EQ(said({in(Waiting::gpu, 0, 0), silent(loading), in(Waiting::gpu, 0, 0)}),
            "rank 1 on here gives no sign of life (it was stopped, or its machine is lost) and was "
            "last seen loading a batch (epoch 2, iteration 57) while 2 ranks wait for the GPU");
}

TEST(StallText, NamesTheFirstOfManyCulprits) {
  const Ranks ranks(6, at(Phase::evaluating));
  EXPECT_EQ(said(ranks),
            "rank 0 on here is evaluating; rank 1 on here is evaluating; rank 2 on here is "
            "evaluating; rank 3 on here is evaluating; 2 more ranks too");
}

TEST(StallText, TableListsCulpritsFirstAndIsLimited) {
  Ranks ranks(20, in(Waiting::allreduce));
  ranks[19] = silent(at(Phase::loading));
  const std::string table = stall_table(*find(ranks), ranks, silent_limit);
  EXPECT_TRUE(
      table.starts_with("rank  host              for        state\n"
                        "  19  here               12.0 s  silent, last seen loading a batch\n"
                        "   0  here               12.0 s  waiting in allreduce number 5\n"))
      << table;
  EXPECT_TRUE(table.ends_with(" ...  and 4 more\n")) << table;
}

TEST(StateText, TableListsAllRanksInOrder) {
  Ranks ranks(20, in(Waiting::allreduce));
  ranks[1] = silent(at(Phase::loading));
  ranks[1].host = "a.long.name";
  ranks[1].memory = std::int64_t{3} << 29;
  ranks[1].activity.epoch = 2;
  ranks[1].activity.iteration = 1234;
  ranks[2].is_known = false;
  ranks[3].memory = 200 << 20;
  const std::string table = state_table(ranks, silent_limit);
  EXPECT_TRUE(table.starts_with(
      "rank  host         epoch  iteration    memory         for  state\n"
      "   0  here             -          -         -      12.0 s  computing, waiting in allreduce "
      "number 5\n"
      "   1  a.long.name      2       1234   1.5 GiB      12.0 s  silent, last seen loading a "
      "batch\n"
      "   2  here             -          -         -           -  unknown\n"
      "   3  here             -          -   200 MiB      12.0 s  computing, waiting in allreduce "
      "number 5\n"))
      << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 21);
}

}  // namespace
}  // namespace tasuki
