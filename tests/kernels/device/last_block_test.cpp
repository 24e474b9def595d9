// last_block's steps on every machine that PTX's memory model allows (PTX ISA, "Memory Consistency
// Model"; Lustig et al. 2019, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model"), by trying
// all orders of the threads' steps on the worst of these machines:
//   a store becomes visible to the GPU as late as it may: when a fence that comes after it (its own
//   thread's, or one of a thread that met it at a barrier) waits for it;
//   a block keeps the value of every address as long as it may: until a fence of one of its threads, which
//   lets it read what is visible then;
//   the counter's addition is one step, and orders nothing.
// Visible values stay visible, so that what an earlier store or a fresher read could show, these show, too.
// Blocks have two threads, each of which writes a value; the last block of a group reads the group's. As
// in Hydra's sum, there may be a second level: the last blocks of all groups write what they made, and the
// last of them reads these.
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
/// The program of one level.
Program program_of(bool first) {
  Program program{Step::store};
  Recorder recorder{program, first};
  if (device::last_block_by(recorder)) program.push_back(Step::read);
  return program;
}

constexpr int kThreads = 2;
using Programs = std::array<Program, kThreads>;  // of a block's threads; alike in all blocks
const Programs kWhole{program_of(true), program_of(false)};

constexpr int kMostBlocks = 3;
constexpr int kMost = kMostBlocks * kThreads;
/// Addresses are threads and levels: each writes its own.
using Addresses = std::uint32_t;
Addresses address(int thread, int level) { return Addresses{1} << (level * kMost + thread); }

struct State {
  std::array<std::uint8_t, kMost> at{};              ///< the next step of every thread
  std::array<std::uint8_t, kMost> level{};           ///< that it is in
  Addresses stored = 0;                              ///< by its thread
  Addresses visible = 0;                             ///< to the GPU
  std::array<Addresses, kMostBlocks> handed_over{};  ///< what met at the block's barriers
  std::array<Addresses, kMostBlocks> fresh{};        ///< what the block reads as it is
  std::array<bool, kMostBlocks> last{};
  std::array<std::uint8_t, kMostBlocks> counted{};  ///< of groups, and behind them of all
  auto operator<=>(const State&) const = default;
};

class Explorer {
 public:
  /// `groups`: blocks of each; with more than one there is a second level.
  explicit Explorer(Programs programs, std::vector<int> groups = {2})
      : programs_(std::move(programs)), groups_(std::move(groups)) {
    for (int group = 0; group < static_cast<int>(groups_.size()); ++group)
      group_.insert(group_.end(),
                    static_cast<std::size_t>(groups_[static_cast<std::size_t>(group)]), group);
  }

  /// Whether a last block ever reads a value that is not there yet.
  bool finds_old_values() {
    explore(State{});
    return old_;
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }
  /// Whether a block came to the end of the last level.
  [[nodiscard]] bool ends() const { return ended_; }

 private:
  [[nodiscard]] int threads() const { return static_cast<int>(group_.size()) * kThreads; }
  [[nodiscard]] int levels() const { return groups_.size() > 1 ? 2 : 1; }
  [[nodiscard]] int group_of(int thread) const {
    return group_[static_cast<std::size_t>(thread / kThreads)];
  }
  [[nodiscard]] static bool in_block(int thread, int block) { return thread / kThreads == block; }
  [[nodiscard]] const Program& program(int thread) const {
    return programs_[static_cast<std::size_t>(thread % kThreads)];
  }

  void explore(const State& state) {
    if (old_ || !seen_.insert(state).second) return;
    for (int thread = 0; thread < threads(); ++thread) {
      const std::size_t at = state.at[static_cast<std::size_t>(thread)];
      if (at < program(thread).size()) take(state, thread, program(thread)[at]);
    }
  }

  void take(const State& state, int thread, Step step) {
    const auto t = static_cast<std::size_t>(thread);
    const int block = thread / kThreads;
    const auto b = static_cast<std::size_t>(block);
    const int level = state.level[t];
    State next = state;
    ++next.at[t];
    switch (step) {
      case Step::store: next.stored |= address(thread, level); break;
      case Step::barrier: return meet(state, block);
      case Step::fence: {
        // Waits for what it must publish: its own stores, and those that were handed to it.
        const Addresses own = address(thread, 0) | address(thread, 1);
        next.visible |= next.stored & (own | next.handed_over[b]);
        next.fresh[b] = next.visible;
        break;
      }
      case Step::count: {
        const auto counter =
            static_cast<std::size_t>(level == 0 ? group_of(thread) : kMostBlocks - 1);
        const int all = level == 0 ? groups_[counter] : static_cast<int>(groups_.size());
        next.last[b] = ++next.counted[counter] == all;
        break;
      }
      case Step::read:
        if (!state.last[b]) {  // it is done: what nobody has written yet may be anything
          next.at[t] = static_cast<std::uint8_t>(program(thread).size());
          break;
        }
        for (int other = 0; other < threads(); ++other) {
          const bool wrote = level == 0 ? group_of(other) == group_of(thread)
                                        : (state.stored & address(other, 1)) != 0;
          if (wrote && !in_block(other, block) && (state.fresh[b] & address(other, level)) == 0)
            old_ = true;
        }
        if (level + 1 < levels()) {
          next.at[t] = 0;
          ++next.level[t];
        } else {
          ended_ = true;
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
      next.handed_over[static_cast<std::size_t>(block)] |=
          state.stored & (address(thread, 0) | address(thread, 1));
    }
    explore(next);
  }

  Programs programs_;
  std::vector<int> groups_;
  std::vector<int> group_;  ///< of each block
  std::set<State> seen_;
  bool old_ = false;
  bool ended_ = false;
};

TEST(LastBlock, ReadsWhatAllBlocksWroteOnEveryMachineOfPtx) {
  for (const std::vector<int>& groups : {std::vector{2}, {3}, {2, 1}}) {
    Explorer explorer(kWhole, groups);
    EXPECT_FALSE(explorer.finds_old_values());
    EXPECT_TRUE(explorer.ends());
    EXPECT_GT(explorer.states(), 100U);
  }
}

TEST(LastBlock, EveryStepIsNeeded) {
  const auto without = [&](Step step, std::ptrdiff_t which) {
    Programs programs = kWhole;
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
