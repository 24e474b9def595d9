// A launch: all blocks of the grid, one after the other, on the same fibers.
#include "kernels/error.h"
#include "tests/emulator/block.h"
#include "tests/emulator/sanitizers.h"

#include <cstdlib>
#include <cstring>

namespace emulator {
namespace {

unsigned schedule_seed = 0;
bool launching = false;

Block& the_block() {
  static Block block;
  return block;
}

dim3 extent(const hydrascope::kernels::device::Extent& e) {
  return {static_cast<unsigned>(e.x), static_cast<unsigned>(e.y), static_cast<unsigned>(e.z)};
}

dim3 index_in(std::int64_t number, const dim3& size) {
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
          static_cast<unsigned>(number / size.x / size.y)};
}

}  // namespace

void set_schedule(unsigned seed) { schedule_seed = seed; }

Block& running_block() {
  if (!launching) {
    std::fputs("emulator: device code runs outside of a launch\n", stderr);
    std::abort();
  }
  return the_block();
}

void launch_erased(const char* name, const hydrascope::kernels::device::Geometry& geometry,
                   void (*call)(const void*), const void* body) {
  using hydrascope::Error;
  using hydrascope::ErrorCode;
  if (launching) throw Error(ErrorCode::internal, "a kernel launches another one", name);
  launching = true;
  const std::string failure =
      the_block().run(extent(geometry.grid), extent(geometry.block), call, body);
  launching = false;
  if (!failure.empty()) throw Error(ErrorCode::internal, std::string(name) + ": " + failure, name);
}

std::string Block::run(dim3 grid, dim3 block, void (*call)(const void*), const void* body) {
  gridDim = grid;
  blockDim = block;
  call_ = call;
  body_ = body;
  schedule_ = Schedule(schedule_seed);
  set_up();
  const std::int64_t blocks = std::int64_t{grid.x} * grid.y * grid.z;
  for (std::int64_t turn = 0; turn < blocks && !failed_; ++turn) {
    blockIdx = index_in(schedule_.block(turn, blocks), grid);
    run_one(turn);
  }
  tear_down();
  return failure_;
}

void Block::set_up() {
  thread_count_ = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  warp_count_ = (thread_count_ + kLanes - 1) / kLanes;
  failed_ = false;
  failure_.clear();
  shared_type_ = nullptr;
  counter_count_ = 0;
  adopt_host(host_);
  for (int i = 0; i < thread_count_; ++i) {
    threads_[i].number = i;
    threads_[i].index = index_in(i, blockDim);
    if (fibers_[i].memory == nullptr) create_fiber(fibers_[i], fiber_main);
    order_host_before(host_, fibers_[i]);
  }
}

void Block::run_one(std::int64_t turn) {
  {
    const NobodysHeap heap;
    tokens_ = static_cast<char*>(std::malloc(static_cast<std::size_t>(2 + warp_count_ * kLanes)));
  }
  ready_count_ = 0;
  returned_count_ = 0;
  barrier_count_ = 0;
  barrier_parity_ = 0;
  for (int w = 0; w < warp_count_; ++w) {
    Warp& warp = warps_[w];
    const int lanes = thread_count_ - w * kLanes;
    warp.lanes = lanes >= kLanes ? ~0U : (1U << lanes) - 1;
    warp.ready = 0;
    warp.returned = 0;
    for (Rendezvous& meeting : warp.meetings) {
      meeting.mask = 0;
      meeting.arrived = 0;
      meeting.staying = 0;
    }
    make_ready(w, warp.lanes);
  }
  // Every block gives its threads other fibers: to TSan a fiber is a thread, whose accesses are in
  // order. So it sees two blocks that write to one place, also where the same thread of both does.
  for (int i = 0; i < thread_count_; ++i) {
    threads_[i].fiber = &fibers_[(i + turn) % thread_count_];
    copies_[i].count = 0;
    copies_[i].groups = 0;
    threads_[i].copies = &copies_[i];
  }
  begin_pass();
  switch_fiber(host_, *pick()->fiber);
  const NobodysHeap heap;
  std::free(tokens_);
  std::free(shared_);
  tokens_ = nullptr;
  shared_ = nullptr;
}

void Block::fiber_main() {
  fiber_entered();
  Block& block = the_block();
  for (;;) {
    block.call_(block.body_);
    block.returned();
    block.give_way();
  }
}

void Block::tear_down() {
  for (int i = 0; i < thread_count_; ++i) order_before_host(fibers_[i], host_);
  if (!failed_) {
    check_counters();
  } else {
    for (int i = 0; i < thread_count_; ++i) {
      if (threads_[i].state != State::returned) restart_fiber(*threads_[i].fiber, fiber_main);
    }
  }
  const NobodysHeap heap;
  std::free(counters_);
  counters_ = nullptr;
  counter_capacity_ = 0;
}

Block::~Block() {
  for (Fiber& fiber : fibers_) destroy_fiber(fiber);
}

// ---- last_block: atomicInc of a counter that is 0 before and after.

bool Block::last(unsigned* counter, unsigned blocks, const Site& site) {
  barrier(site);
  if (current_->number == 0) {
    if (!accessible(counter, sizeof *counter))
      fail("counts in memory that it may not write at " + text(site));
    if (blocks == 0) fail("waits for the last of 0 blocks at " + text(site));
    if (first_use(counter, site) && *counter != 0)
      fail("the counter of " + text(site) + " begins at " + std::to_string(*counter) +
           ", not at 0");
    if (*counter >= blocks)
      fail("the counter of " + text(site) + " is " + std::to_string(*counter) + " of " +
           std::to_string(blocks) + " blocks");
    last_ = *counter == blocks - 1;
    *counter = last_ ? 0 : *counter + 1;
    // Acquires before it releases: the last block knows what all others did.
    char& token = *reinterpret_cast<char*>(counter);
    depart(token);
    arrive(token);
  }
  barrier(site);
  return last_;
}

// Whether the launch has not used the counter before.
bool Block::first_use(unsigned* counter, const Site& site) {
  for (int i = 0; i < counter_count_; ++i) {
    if (counters_[i].value == counter) return false;
  }
  if (counter_count_ == counter_capacity_) {
    const NobodysHeap heap;
    counter_capacity_ = 2 * counter_capacity_ + 16;
    void* grown =
        std::realloc(counters_, sizeof(Counter) * static_cast<unsigned>(counter_capacity_));
    counters_ = static_cast<Counter*>(grown);
  }
  counters_[counter_count_].value = counter;
  counters_[counter_count_].site = site;
  ++counter_count_;
  return true;
}

void Block::check_counters() {
  for (int i = 0; i < counter_count_; ++i) {
    if (*counters_[i].value == 0) continue;
    failure_ = "the counter of " + text(counters_[i].site) + " ends at " +
               std::to_string(*counters_[i].value) +
               ", not at 0: fewer blocks than it waits for have passed";
    return;
  }
}

}  // namespace emulator
