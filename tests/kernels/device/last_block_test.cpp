// last_block's steps on every machine that PTX's memory model allows (PTX ISA, "Memory Consistency
// Model"; Lustig et al. 2019, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model"), by trying
// all orders of everything that such a machine may do:
//   a store becomes visible to the GPU at any time after it, unless a fence that comes after it (its own
//   thread's, or one of a thread that met it at a barrier) waits for it;
//   a block may keep the value that an address has at any time, and reads that until a fence of one of its
//   threads, after which it reads afresh;
//   the counter's addition is one step, and orders nothing.
// Two blocks of two threads each write a value a thread; the last block reads all four.
#include "kernels/device/last_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace hydrascope::kernels::test {
namespace {

enum class Step : std::uint8_t { store, barrier, fence, count, read };
using Program = std::vector<Step>;

/// Writes down what a thread does.
struct Recorder {
  Program& program;
  bool first;
  void barrier() const { program.push_back(Step::barrier); }
  [[nodiscard]] bool is_first_thread() const { return first; }
  void fence() const { program.push_back(Step::fence); }
  void count() const { program.push_back(Step::count); }
  [[nodiscard]] bool was_last() const { return true; }
};
Program program_of(bool first) {
  Program program{Step::store};
  Recorder recorder{program, first};
  if (device::last_block_by(recorder)) program.push_back(Step::read);
  return program;
}

constexpr int kBlocks = 2;
constexpr int kThreads = 2;
constexpr int kAll = kBlocks * kThreads;
using Programs = std::array<Program, kThreads>;  // of a block's threads; alike in all blocks

enum class Answer : std::uint8_t { unknown, no, yes };

/// Addresses are threads: each writes its own.
struct State {
  std::array<std::uint8_t, kAll> at{};   ///< the next step of every thread
  std::array<bool, kAll> stored{};       ///< by its thread
  std::array<bool, kAll> handed_over{};  ///< met at a barrier by its block since
  std::array<bool, kAll> visible{};      ///< to the GPU
  std::array<std::uint8_t, kBlocks>
      kept{};                          ///< old values that a block may still read, one bit each
  std::array<Answer, kBlocks> last{};  ///< what its threads read of `last`
  int counted = 0;
  auto operator<=>(const State&) const = default;
};

class Explorer {
 public:
  explicit Explorer(Programs programs) : programs_(std::move(programs)) {}

  /// Whether the last block ever reads a value that is not there yet.
  bool finds_old_values() {
    State start;
    explore(start);
    return old_;
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  [[nodiscard]] bool ends() const { return ended_; }

 private:
  [[nodiscard]] const Program& program(int thread) const {
    return programs_[static_cast<std::size_t>(thread % kThreads)];
  }

  void explore(const State& state) {
    if (old_ || !seen_.insert(state).second) return;
    bool done = true;
    for (int thread = 0; thread < kAll; ++thread) {
      const auto t = static_cast<std::size_t>(thread);
      if (!state.visible[t]) {
        for (std::size_t block = 0; block < kBlocks; ++block) {
          State next = state;
          next.kept[block] = static_cast<std::uint8_t>(next.kept[block] | 1 << thread);
          explore(next);
        }
      }
      if (state.stored[t] && !state.visible[t]) {
        State next = state;
        next.visible[t] = true;
        explore(next);
      }
      if (state.at[t] == program(thread).size()) continue;
      done = false;
      take(state, thread, program(thread)[state.at[t]]);
    }
    ended_ = ended_ || done;
  }

  void take(const State& state, int thread, Step step) {
    const auto t = static_cast<std::size_t>(thread);
    const int block = thread / kThreads;
    const auto b = static_cast<std::size_t>(block);
    State next = state;
    ++next.at[t];
    switch (step) {
      case Step::store: next.stored[t] = true; break;
      case Step::barrier: return meet(state, block);
      case Step::fence:
        // Waits for what it must publish: its own stores, and those that were handed to it.
        for (int other = block * kThreads; other < (block + 1) * kThreads; ++other) {
          const auto o = static_cast<std::size_t>(other);
          if ((other == thread || state.handed_over[o]) && state.stored[o] && !state.visible[o])
            return;
        }
        next.kept[b] = 0;
        break;
      case Step::count: next.last[b] = ++next.counted == kBlocks ? Answer::yes : Answer::no; break;
      case Step::read:
        if (state.last[b] == Answer::no) break;  // what nobody has written yet may be anything
        for (std::size_t address = 0; address < kAll; ++address) {
          const bool own = static_cast<int>(address) / kThreads == block;
          if (!own && (!state.visible[address] || (state.kept[b] >> address & 1) != 0)) old_ = true;
        }
        break;
    }
    explore(next);
  }

  /// A barrier is passed when every thread of the block stands at one.
  void meet(const State& state, int block) {
    State next = state;
    for (int thread = block * kThreads; thread < (block + 1) * kThreads; ++thread) {
      const auto t = static_cast<std::size_t>(thread);
      if (state.at[t] == program(thread).size() || program(thread)[state.at[t]] != Step::barrier)
        return;
      ++next.at[t];
      next.handed_over[t] = state.stored[t];
    }
    explore(next);
  }

  Programs programs_;
  std::set<State> seen_;
  bool old_ = false;
  bool ended_ = false;
};

TEST(LastBlock, ReadsWhatAllBlocksWroteOnEveryMachineOfPtx) {
  Explorer explorer({program_of(true), program_of(false)});
  EXPECT_FALSE(explorer.finds_old_values());
  EXPECT_TRUE(explorer.ends());
  EXPECT_GT(explorer.states(), 100U);
}

TEST(LastBlock, EveryStepIsNeeded) {
  const Programs whole{program_of(true), program_of(false)};
  const auto without = [&](Step step, std::ptrdiff_t which) {
    Programs programs = whole;
    for (Program& program : programs) {
      std::ptrdiff_t left = which;
      const auto found =
          std::ranges::find_if(program, [&](Step each) { return each == step && left-- == 0; });
      if (found != program.end()) program.erase(found);
    }
    return Explorer(programs).finds_old_values();
  };
  EXPECT_TRUE(without(Step::barrier, 0)) << "the barrier before";
  EXPECT_TRUE(without(Step::fence, 0)) << "the fence before the counter";
  EXPECT_TRUE(without(Step::fence, 1)) << "the fence behind it";
  EXPECT_TRUE(without(Step::barrier, 1)) << "the barrier behind";
}

}  // namespace
}  // namespace hydrascope::kernels::test
