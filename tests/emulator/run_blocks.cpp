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
  const std::int64_t blocks = std::int64_t{grid.x} * grid.y * grid.z;
  set_up(blocks);
  for (std::int64_t turn = 0; turn < blocks && !failed_; ++turn) {
    blockIdx = index_in(schedule_.block(turn, blocks), grid);
    run_one(turn);
  }
  tear_down();
  return failure_;
}

// To TSan a fiber is a thread: what it does is in order, and a barrier tells others all that it has
// ever done. So that blocks are not ordered by the fibers they share, neighbours in time share
// none.
void Block::set_up(std::int64_t blocks) {
  thread_count_ = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  warp_count_ = (thread_count_ + kLanes - 1) / kLanes;
  fiber_count_ = blocks > 1 && watched_for_races() ? 2 * thread_count_ : thread_count_;
  failed_ = false;
  failure_.clear();
  shared_type_ = nullptr;
  counter_count_ = 0;
  adopt_host(host_);
  for (int i = 0; i < fiber_count_; ++i) {
    if (fibers_[i].memory == nullptr) create_fiber(fibers_[i], fiber_main);
    order_host_before(host_, fibers_[i]);
  }
  for (int i = 0; i < thread_count_; ++i) {
    threads_[i].number = i;
    threads_[i].index = index_in(i, blockDim);
    threads_[i].copies = &copies_[i];
  }
}

void Block::run_one(std::int64_t turn) {
  {
    const NobodysHeap heap;
    tokens_ = static_cast<char*>(
        std::malloc(static_cast<std::size_t>(2 + warp_count_ * Warp::kMeetings)));
  }
  ready_count_ = 0;
  returned_count_ = 0;
  barrier_count_ = 0;
  barrier_parity_ = 0;
  for (int w = 0; w < warp_count_; ++w) {
    Warp& warp = warps_[w];
    const int lanes = thread_count_ - w * kLanes;
    warp.lanes = lanes >= kLanes ? kWholeWarp : (1U << lanes) - 1;
    warp.ready = 0;
    warp.returned = 0;
    for (Rendezvous& meeting : warp.meetings) {
      meeting.arrived = 0;
      meeting.staying = 0;
    }
    make_ready(w, warp.lanes);
  }
  const auto first_fiber = turn * thread_count_ % fiber_count_;
  for (int i = 0; i < thread_count_; ++i) {
    threads_[i].fiber = &fibers_[first_fiber + i];
    copies_[i].count = 0;
    copies_[i].groups = 0;
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
    try {
      block.call_(block.body_);
      block.returned();
      block.give_way();
    } catch (const Failed&) {
      // Only the thread that fails is unwound; the others are left where they wait.
    }
    if (block.failed_) switch_fiber(block.abandoned_, block.host_);
  }
}

void Block::tear_down() {
  for (int i = 0; i < fiber_count_; ++i) order_before_host(fibers_[i], host_);
  if (!failed_) {
    check_counters();
  } else {
    for (int i = 0; i < thread_count_; ++i) restart_fiber(*threads_[i].fiber, fiber_main);
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
    count(counter, blocks, site);
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

// Fails where the counter cannot be right.
void Block::count(unsigned* counter, unsigned blocks, const Site& site) {
  const auto number = [](unsigned value) { return std::to_string(value); };
  if (!accessible(counter, sizeof *counter))
    fail("counts in memory that it may not write at " + text(site));
  for (int i = 0; i < counter_count_; ++i) {
    const Counter& known = counters_[i];
    if (known.value != counter) continue;
    if (known.blocks != blocks)
      fail("counts to " + number(blocks) + " blocks at " + text(site) + ", an earlier one to " +
           number(known.blocks) + " at " + text(known.site));
    return;
  }
  if (*counter != 0)
    fail("the counter of " + text(site) + " begins at " + number(*counter) + ", not at 0");
  if (counter_count_ == counter_capacity_) {
    const NobodysHeap heap;
    counter_capacity_ = 2 * counter_capacity_ + 16;
    void* grown =
        std::realloc(counters_, sizeof(Counter) * static_cast<unsigned>(counter_capacity_));
    counters_ = static_cast<Counter*>(grown);
  }
  Counter& added = counters_[counter_count_++];
  added.value = counter;
  added.blocks = blocks;
  added.site = site;
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
