// The block that runs: its threads, who waits where, and who runs next. One at a time in a process;
// the functions of block_emulator.h act on it.
//
// Code on the fibers must not write through functions that the standard library defines
// inline: the linker may take their copy from a file that TSan watches. Hence plain arrays.
#pragma once

#include "tests/emulator/block_emulator.h"
#include "tests/emulator/fiber.h"
#include "tests/emulator/schedule.h"

#include <string>

namespace emulator {

inline constexpr int kMaxThreads = kLanes * kMaxWarps;
/// NaN as float32, and in each half as bfloat16 and float16.
inline constexpr std::uint32_t kPoison = 0x7fc07fc0U;

enum class State { runs, at_barrier, in_collective, returned };
enum class Collective { barrier, shuffle, product, matrix_load };

inline constexpr unsigned kWholeWarp = ~0U;

/// The place where all lanes of a warp meet.
struct Rendezvous {
  unsigned arrived = 0;
  unsigned staying = 0;  ///< who has not left yet; 0: free for the next meeting
  Collective kind = Collective::barrier;
  Site site;
};

struct Warp {
  unsigned lanes = 0;  ///< that exist
  unsigned ready = 0;  ///< that could run
  unsigned returned = 0;
  /// Two in turns: some may have reached the next one before all have left the one before.
  static constexpr int kMeetings = 2;
  Rendezvous meetings[kMeetings];
};

/// The value that a thread brings to a collective of its warp, and where it wants the result.
struct Operands {
  float value = 0;
  float result = 0;
  int source_lane = 0;
  float* d = nullptr;
  const std::uint32_t* a = nullptr;
  const std::uint32_t* b = nullptr;
  float (*to_float)(std::uint16_t) = nullptr;
  std::uint32_t* words = nullptr;
  const void* row = nullptr;
  bool transposed = false;
};

struct AsyncCopy {
  void* to = nullptr;
  const void* from = nullptr;
  int bytes = 0;
  int group = 0;
  Site site;
};

/// A thread's copies on their way, oldest first.
struct AsyncCopies {
  static constexpr int kMax = 128;
  AsyncCopy copies[kMax];
  int count = 0;
  int groups = 0;  ///< committed so far
};

struct Thread {
  int number = 0;  ///< in the block
  dim3 index;
  Fiber* fiber = nullptr;
  State state = State::runs;
  Site site;  ///< of the barrier or collective it waits at
  Rendezvous* meeting = nullptr;
  Operands operands;
  AsyncCopies* copies = nullptr;
};

/// A counter of last_block.
struct Counter {
  unsigned* value = nullptr;
  unsigned blocks = 0;
  Site site;
};

/// The exception that unwinds the thread that fails.
struct Failed {};

class Block {
 public:
  /// All blocks of a launch; returns why it failed, or nothing.
  std::string run(dim3 grid, dim3 block, void (*call)(const void*), const void* body);

  Thread& current() { return *current_; }
  /// Waits for all threads of the block.
  void barrier(const Site& site);
  /// Waits for all lanes of the warp, whose operands are then dealt with.
  void meet(Collective kind, const Site& site);
  /// Ends the launch: nothing of it runs any more.
  [[noreturn]] void fail(const std::string& what);

  void* shared(std::size_t bytes, const std::type_info& type);
  [[nodiscard]] bool in_shared(const void* from, std::size_t bytes) const;
  bool last(unsigned* counter, unsigned blocks, const Site& site);

  ~Block();

 private:
  static void fiber_main();
  void set_up(std::int64_t blocks);
  void run_one(std::int64_t turn);
  void tear_down();
  void returned();
  void give_way();
  Thread* pick();
  void visit_next();
  void begin_pass();
  void visit(int turn);
  void release_barrier();
  void explain_stall();
  Rendezvous& meeting_of(Collective kind, const Site& site);
  char& token_of(const Rendezvous& meeting) const;
  Warp& warp_of(const Thread& thread) { return warps_[thread.number / kLanes]; }
  void make_ready(int warp, unsigned lanes);
  void count(unsigned* counter, unsigned blocks, const Site& site);
  void check_counters();

  Fiber host_;
  Fiber abandoned_;                ///< stands for the one that failed
  Fiber fibers_[2 * kMaxThreads];  ///< made when needed, kept for later launches
  Thread threads_[kMaxThreads];
  AsyncCopies copies_[kMaxThreads];  ///< apart, so that what is used at every switch lies together
  Warp warps_[kMaxWarps];
  int thread_count_ = 0;
  int fiber_count_ = 0;
  int warp_count_ = 0;
  Thread* current_ = nullptr;
  void (*call_)(const void*) = nullptr;
  const void* body_ = nullptr;

  Schedule schedule_{0};
  int ready_count_ = 0;
  int turn_ = 0;           ///< of the warp that is visited, in the schedule's order
  unsigned to_visit_ = 0;  ///< lanes of that warp that this visit has still to run
  int lane_turn_ = 0;

  int returned_count_ = 0;
  int barrier_count_ = 0;
  int barrier_parity_ = 0;
  /// What TSan knows the barrier (two) and the meetings of the warps by. On the heap, and new for
  /// every block: returning them makes TSan forget what the block before has done.
  char* tokens_ = nullptr;

  unsigned char* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
  const std::type_info* shared_type_ = nullptr;
  bool last_ = false;
  Counter* counters_ = nullptr;
  int counter_count_ = 0;
  int counter_capacity_ = 0;
  bool failed_ = false;
  std::string failure_;
};

/// The one that runs; misuse outside of a launch ends the program.
Block& running_block();

/// Carries out a collective at which all `lanes` have arrived.
void deliver(Collective kind, Thread* lanes);
/// The fault of a thread's copies when it returns; empty: none.
std::string unfinished_copy(const AsyncCopies& copies);

const char* name(Collective kind);
std::string text(const Site& site);
std::string text(const dim3& index);
bool same(const Site& a, const Site& b);

}  // namespace emulator
