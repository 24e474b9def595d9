#include "tests/emulator/block.h"

#include "tests/emulator/sanitizers.h"

#include <bit>
#include <cstdlib>
#include <cstring>

namespace emulator {
namespace {

unsigned bit(const Thread& thread) { return 1U << (thread.number % kLanes); }

}  // namespace

// ---- Who runs next.

void Block::give_way() {
  Thread& left = *current_;
  Thread* next = pick();
  if (next == nullptr && barrier_count_ == thread_count_) {
    release_barrier();
    next = pick();
  }
  if (next == nullptr && returned_count_ < thread_count_) explain_stall();
  if (next == &left) return;
  switch_fiber(*left.fiber, next == nullptr ? host_ : *next->fiber);
}

Thread* Block::pick() {
  if (ready_count_ == 0) return nullptr;
  while (to_visit_ == 0) visit_next();
  while ((to_visit_ >> schedule_.lane(lane_turn_) & 1U) == 0) ++lane_turn_;
  const int warp = schedule_.warp(turn_);
  const unsigned lane = 1U << schedule_.lane(lane_turn_);
  to_visit_ &= ~lane;
  warps_[warp].ready &= ~lane;
  --ready_count_;
  current_ = &threads_[warp * kLanes + std::countr_zero(lane)];
  current_->state = State::runs;
  threadIdx = current_->index;
  return current_;
}

void Block::visit_next() {
  if (schedule_.run_ahead() && warps_[schedule_.warp(turn_)].ready != 0)
    visit(turn_);
  else if (turn_ + 1 < warp_count_)
    visit(turn_ + 1);
  else
    begin_pass();
}

void Block::begin_pass() {
  schedule_.begin_pass(warp_count_);
  visit(0);
}

// The lanes that are ready now: those that become so meanwhile wait for the warp's next visit.
void Block::visit(int turn) {
  turn_ = turn;
  to_visit_ = warps_[schedule_.warp(turn)].ready;
  lane_turn_ = 0;
}

void Block::make_ready(int warp, unsigned lanes) {
  warps_[warp].ready |= lanes;
  ready_count_ += std::popcount(lanes);
}

// ---- The block's barrier.

void Block::barrier(const Site& site) {
  Thread& thread = *current_;
  thread.state = State::at_barrier;
  thread.site = site;
  ++barrier_count_;
  // Two tokens in turn: who is still to leave this barrier must not learn what others did before
  // the next one.
  char& token = tokens_[barrier_parity_];
  arrive(token);
  give_way();
  depart(token);
}

void Block::release_barrier() {
  const Thread& first = threads_[0];
  for (int i = 1; i < thread_count_; ++i) {
    if (!same(first.site, threads_[i].site)) {
      current_ = &threads_[i];
      fail("waits at the barrier of " + text(threads_[i].site) + ", but thread " +
           text(first.index) + " at that of " + text(first.site));
    }
  }
  barrier_count_ = 0;
  barrier_parity_ ^= 1;
  for (int warp = 0; warp < warp_count_; ++warp) make_ready(warp, warps_[warp].lanes);
  begin_pass();
}

// ---- Collectives of a warp.

void Block::meet(Collective kind, const Site& site) {
  Thread& thread = *current_;
  Rendezvous& meeting = meeting_of(kind, site);
  thread.state = State::in_collective;
  thread.site = site;
  thread.meeting = &meeting;
  meeting.arrived |= bit(thread);
  // Only the barrier orders memory: shuffles, products and matrix loads do not (CUDA C++
  // Programming Guide, "Warp Shuffle Functions": no memory barrier is implied).
  const bool orders = kind == Collective::barrier;
  char& token = token_of(meeting);
  if (orders) arrive(token);
  if (meeting.arrived == kWholeWarp) {
    const int warp = thread.number / kLanes;
    deliver(kind, threads_ + warp * kLanes);
    meeting.staying = kWholeWarp;
    make_ready(warp, kWholeWarp);
  }
  give_way();
  if (orders) depart(token);
  meeting.staying &= ~bit(thread);
  if (meeting.staying == 0) meeting.arrived = 0;
}

/// The meeting that others wait at already, or else the free one.
Rendezvous& Block::meeting_of(Collective kind, const Site& site) {
  const Thread& thread = *current_;
  Warp& warp = warp_of(thread);
  const auto here = [&] { return std::string(name(kind)) + " of " + text(site); };
  const auto first = [](unsigned lanes) { return std::to_string(std::countr_zero(lanes)); };
  if (warp.lanes != kWholeWarp)
    fail("names lane " + first(~warp.lanes) + " in the " + here() +
         ", but the block ends before it");
  if (warp.returned != 0)
    fail("waits at the " + here() + " for lane " + first(warp.returned) + ", which has returned");
  Rendezvous* open = nullptr;
  Rendezvous* unused = nullptr;
  for (Rendezvous& meeting : warp.meetings) {
    if (meeting.arrived != 0 && meeting.staying == 0) open = &meeting;
    if (meeting.arrived == 0 && unused == nullptr) unused = &meeting;
  }
  if (open == nullptr) {
    unused->kind = kind;
    unused->site = site;
    return *unused;
  }
  if (open->kind != kind || !same(open->site, site)) {
    const Thread& other =
        threads_[thread.number / kLanes * kLanes + std::countr_zero(open->arrived)];
    fail("is at the " + here() + ", but thread " + text(other.index) +
         " of its warp waits for it at the " + name(open->kind) + " of " + text(open->site));
  }
  return *open;
}

char& Block::token_of(const Rendezvous& meeting) const {
  const auto warp = current_->number / kLanes;
  return tokens_[2 + warp * Warp::kMeetings + (&meeting - warps_[warp].meetings)];
}

// ---- Threads that return, and those that never will.

void Block::returned() {
  Thread& thread = *current_;
  if (const std::string copy = unfinished_copy(*thread.copies); !copy.empty()) fail(copy);
  const Warp& warp = warp_of(thread);
  for (const Rendezvous& meeting : warp.meetings) {
    if (meeting.arrived != 0 && meeting.staying == 0) {
      const int other = thread.number / kLanes * kLanes + std::countr_zero(meeting.arrived);
      fail("returns, but thread " + text(threads_[other].index) +
           " of its warp waits for it at the " + name(meeting.kind) + " of " + text(meeting.site));
    }
  }
  thread.state = State::returned;
  warp_of(thread).returned |= bit(thread);
  ++returned_count_;
}

/// Nobody can run, and some have not returned.
void Block::explain_stall() {
  const Thread* gone = nullptr;
  Thread* waiting = nullptr;
  for (int i = 0; i < thread_count_; ++i) {
    if (threads_[i].state == State::returned && gone == nullptr) gone = &threads_[i];
    if (threads_[i].state == State::at_barrier && waiting == nullptr) waiting = &threads_[i];
    if (threads_[i].state != State::in_collective) continue;
    current_ = &threads_[i];
    const Rendezvous& meeting = *current_->meeting;
    const int absent = std::countr_zero(~meeting.arrived);
    const Thread& missing = threads_[i / kLanes * kLanes + absent];
    fail("deadlock: waits at the " + std::string(name(meeting.kind)) + " of " + text(meeting.site) +
         " for lane " + std::to_string(absent) + ", thread " + text(missing.index) +
         ", which waits at the barrier of " + text(missing.site));
  }
  current_ = waiting;
  fail("waits at the barrier of " + text(waiting->site) + ", which thread " + text(gone->index) +
       " never reaches: it has returned");
}

void Block::fail(const std::string& what) {
  failed_ = true;
  failure_ = "block " + text(blockIdx) + ", thread " + text(current_->index) + ": " + what;
  throw Failed{};
}

// ---- Shared memory.

void* Block::shared(std::size_t bytes, const std::type_info& type) {
  if (shared_type_ != nullptr && *shared_type_ != type)
    fail(std::string("takes the block's shared memory for a ") + type.name() + ", but it is a " +
         shared_type_->name());
  shared_type_ = &type;
  if (shared_ == nullptr) {
    const NobodysHeap heap;
    shared_ = static_cast<unsigned char*>(std::malloc(bytes));
    shared_bytes_ = bytes;
    for (std::size_t i = 0; i < bytes; i += sizeof kPoison)
      std::memcpy(shared_ + i, &kPoison, bytes - i < sizeof kPoison ? bytes - i : sizeof kPoison);
  }
  return shared_;
}

bool Block::in_shared(const void* from, std::size_t bytes) const {
  const auto* first = static_cast<const unsigned char*>(from);
  return shared_ != nullptr && first >= shared_ && first + bytes <= shared_ + shared_bytes_;
}

// ---- Words.

const char* name(Collective kind) {
  switch (kind) {
    case Collective::barrier: return "warp barrier";
    case Collective::shuffle: return "shuffle";
    case Collective::product: return "matrix product";
    case Collective::matrix_load: return "matrix load";
  }
  return "";
}

std::string text(const Site& site) {
  return std::string(site.file_name()) + ":" + std::to_string(site.line());
}

std::string text(const dim3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

bool same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace emulator
