// AmxTiles' machine code on a processor without AMX: its instructions are illegal there, and while
// a TrappedTiles lives the signal is caught, the instruction decoded as the manual encodes it and
// done on EmulatedTiles with the addresses and strides that the registers hold. So what the
// compiler and the assembler made of AmxTiles is tested too, byte by byte, short of running on
// silicon.
#pragma once

#include <hwy/highway.h>

#include "kernels/device/matrix_instructions.h"
#include "tests/kernels/amx/emulated_tiles.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hwy/per_target.h>
#include <optional>
#include <signal.h>
#include <stdexcept>
#include <ucontext.h>

namespace hydrascope::kernels::test {

/// The reason why nothing can be trapped here; null: a TrappedTiles traps.
inline const char* why_not_trapped() {
#if defined(__x86_64__)
  return device::amx_refusal() == nullptr ? "AMX is there: nothing to trap" : nullptr;
#else
  return "AMX's instructions are x86-64's";
#endif
}

#if !defined(__x86_64__)
class TrappedTiles : public amx::EmulatedTiles {
 public:
  amx::EmulatedTiles& tiles() { return *this; }
};
#else
class TrappedTiles {
 public:
  TrappedTiles() {
    current() = &tiles_;
    struct sigaction action = {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGILL, &action, &before_) != 0) throw std::runtime_error("sigaction");
  }
  ~TrappedTiles() {
    sigaction(SIGILL, &before_, nullptr);
    current() = nullptr;
  }
  TrappedTiles(const TrappedTiles&) = delete;
  TrappedTiles& operator=(const TrappedTiles&) = delete;

  amx::EmulatedTiles& tiles() { return tiles_; }

 private:
  static amx::EmulatedTiles*& current() {
    static amx::EmulatedTiles* tiles = nullptr;
    return tiles;
  }

  /// A memory operand, and what is behind it.
  struct Operand {
    std::uint64_t base;   ///< with the displacement
    std::uint64_t index;  ///< scaled: the stride of tile loads
    const std::uint8_t* end;
  };

  static Operand operand(const std::uint8_t* modrm, bool r_x, bool r_b, const greg_t* registers) {
    static constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                       REG_R12, REG_R13, REG_R14, REG_R15};
    const auto value = [&](int number) {
      return static_cast<std::uint64_t>(registers[kOrder[number]]);
    };
    const int mod = *modrm >> 6;
    const int rm = *modrm & 7;
    Operand result{0, 0, modrm + 1};
    bool wide = mod == 2;
    bool relative = false;
    if (rm == 4) {
      const int sib = *result.end++;
      const int index = ((sib >> 3) & 7) | (r_x ? 8 : 0);
      if (index != 4) result.index = value(index) << (sib >> 6);
      if (mod == 0 && (sib & 7) == 5)
        wide = true;
      else
        result.base = value((sib & 7) | (r_b ? 8 : 0));
    } else if (mod == 0 && rm == 5) {
      wide = relative = true;
    } else {
      result.base = value(rm | (r_b ? 8 : 0));
    }
    std::int32_t displacement = 0;
    if (wide) {
      std::memcpy(&displacement, result.end, 4);
      result.end += 4;
    } else if (mod == 1) {
      displacement = static_cast<std::int8_t>(*result.end++);
    }
    if (relative) result.base = reinterpret_cast<std::uint64_t>(result.end);
    result.base += static_cast<std::uint64_t>(static_cast<std::int64_t>(displacement));
    return result;
  }

  /// The begin of the next instruction; null: this is none of AMX's that the kernels use.
  static const std::uint8_t* execute(const std::uint8_t* code, const greg_t* registers) {
    amx::EmulatedTiles& tiles = *current();
    // VEX: C4, then inverted R X B and the map 0F38, then W, inverted vvvv, L and the prefix.
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return nullptr;
    enum Prefix { none, p66, pf3, pf2 };
    const int prefix = code[2] & 3;
    const int opcode = code[3];
    const int modrm = code[4];
    const bool direct = modrm >> 6 == 3;
    const int reg = (modrm >> 3) & 7;
    const int rm = modrm & 7;
    const int vvvv = (~code[2] >> 3) & 15;
    const Operand memory =
        direct ? Operand{0, 0, code + 5}
               : operand(code + 4, (code[1] & 0x40) == 0, (code[1] & 0x20) == 0, registers);
    auto* address = reinterpret_cast<std::byte*>(memory.base);
    const auto stride = static_cast<std::int64_t>(memory.index);
    if (opcode == 0x49 && prefix == none && modrm == 0xc0) {
      tiles.release();
    } else if (opcode == 0x49 && prefix == none && !direct && reg == 0) {
      amx::TileConfiguration configuration;
      std::memcpy(&configuration, address + stride, sizeof configuration);
      tiles.configure(configuration);
    } else if (opcode == 0x49 && prefix == pf2 && direct && rm == 0) {
      tiles.zero(reg);
    } else if (opcode == 0x4b && prefix == pf2 && !direct && rm == 4) {
      tiles.load(reg, address, stride);
    } else if (opcode == 0x4b && prefix == pf3 && !direct && rm == 4) {
      tiles.store(reg, address, stride);
    } else if (opcode == 0x5c && prefix == pf3 && direct) {
      tiles.dot_bfloat16(reg, rm, vvvv);
    } else if (opcode == 0x5e && prefix == p66 && direct) {
      tiles.dot_uint8_int8(reg, rm, vvvv);
    } else {
      return nullptr;
    }
    return memory.end;
  }

  static void on_signal(int, siginfo_t*, void* context) {
    greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    try {
      const auto* code = reinterpret_cast<const std::uint8_t*>(registers[REG_RIP]);
      if (const std::uint8_t* next = execute(code, registers)) {
        registers[REG_RIP] = reinterpret_cast<greg_t>(next);
        return;
      }
      std::fputs("an illegal instruction that is not AMX\n", stderr);
    } catch (const amx::TileFault& fault) {
      std::fprintf(stderr, "%s\n", fault.what());
    }
    std::abort();
  }

  amx::EmulatedTiles tiles_;
  struct sigaction before_ = {};
};
#endif

/// A processor with AMX while this lives: its own, or one whose instructions are trapped.
class AmxProcessor {
 public:
  AmxProcessor() {
    if (device::amx_refusal() == nullptr) return;
    trap_.emplace();
    for (const device::MatrixInstruction each : kInstructions) device::pretend_for_test(each);
  }
  ~AmxProcessor() {
    if (!trap_) return;
    for (const device::MatrixInstruction each : kInstructions) device::allow_for_test(each, false);
  }
  AmxProcessor(const AmxProcessor&) = delete;
  AmxProcessor& operator=(const AmxProcessor&) = delete;

  /// Products that were emulated; nothing on a processor with AMX.
  [[nodiscard]] std::optional<std::int64_t> products() {
    return trap_ ? std::optional(trap_->tiles().counts().dot) : std::nullopt;
  }

 private:
  static constexpr device::MatrixInstruction kInstructions[] = {
      device::MatrixInstruction::amx_bf16, device::MatrixInstruction::amx_int8};
  std::optional<TrappedTiles> trap_;
};

/// Runs `body()` for each target that was compiled, on a processor with AMX: those that have no code for
/// it must not multiply by it.
template <class Body>
void for_each_target_beside_amx(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    device::set_target_for_test(target);
    AmxProcessor processor;
    body();
    if (const auto products = processor.products()) {
      EXPECT_EQ(*products > 0, device::may_use(device::MatrixInstruction::amx_bf16));
    }
  }
  device::set_target_for_test(0);
}

}  // namespace hydrascope::kernels::test
