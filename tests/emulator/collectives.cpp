// Collectives of the block and of a warp: what they check, and what the lanes get.
#include "tests/emulator/block.h"
#include "tests/emulator/sanitizers.h"

#include <cstring>

namespace emulator {
namespace {

void exchange(Thread* lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    Operands& own = lanes[lane].operands;
    own.result = lanes[own.source_lane].operands.value;
  }
}

/// All 16-bit words as values of a storage type. The type's own conversion is instrumented code,
/// and a product needs 384 of them.
struct Meanings {
  float (*to_float)(std::uint16_t) = nullptr;
  float of[1 << 16];
};

const Meanings& meanings(float (*to_float)(std::uint16_t)) {
  static Meanings known[4];
  static int next = 0;
  for (const Meanings& type : known) {
    if (type.to_float == to_float) return type;
  }
  Meanings& added = known[next++ % 4];
  added.to_float = to_float;
  for (std::uint32_t word = 0; word < 1U << 16; ++word)
    added.of[word] = to_float(static_cast<std::uint16_t>(word));
  return added;
}

using Quad = float __attribute__((vector_size(16)));

Quad load_quad(const float* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}

// d += a b as mma.m16n8k16 has it; the sum of an element is in the order of k.
void multiply(Thread* lanes) {
  const float* value = meanings(lanes[0].operands.to_float).of;
  float a[16][16];
  float b[16][8];
  float d[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const Operands& own = lanes[lane].operands;
    const int g = lane / 4;
    const int p = 2 * (lane % 4);
    for (int word = 0; word < 4; ++word) {
      float* to = &a[g + 8 * (word % 2)][p + 8 * (word / 2)];
      to[0] = value[own.a[word] & 0xffffU];
      to[1] = value[own.a[word] >> 16];
    }
    for (int word = 0; word < 2; ++word) {
      b[p + 8 * word][g] = value[own.b[word] & 0xffffU];
      b[p + 8 * word + 1][g] = value[own.b[word] >> 16];
    }
    std::memcpy(&d[g][p], own.d, 2 * sizeof(float));
    std::memcpy(&d[g + 8][p], own.d + 2, 2 * sizeof(float));
  }
  for (auto& row : d) {
    const float* factor = a[&row - d];
    Quad left = load_quad(row);
    Quad right = load_quad(row + 4);
    for (int k = 0; k < 16; ++k) {
      left += factor[k] * load_quad(b[k]);
      right += factor[k] * load_quad(b[k] + 4);
    }
    std::memcpy(row, &left, sizeof left);
    std::memcpy(row + 4, &right, sizeof right);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float* own = lanes[lane].operands.d;
    const int g = lane / 4;
    const int p = 2 * (lane % 4);
    std::memcpy(own, &d[g][p], 2 * sizeof(float));
    std::memcpy(own + 2, &d[g + 8][p], 2 * sizeof(float));
  }
}

void load(Thread* lanes) {
  std::uint16_t matrices[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane)
    std::memcpy(matrices[lane / 8][lane % 8], lanes[lane].operands.row, 16);
  for (int lane = 0; lane < kLanes; ++lane) {
    const Operands& own = lanes[lane].operands;
    const int g = lane / 4;
    const int p = 2 * (lane % 4);
    for (int m = 0; m < 4; ++m) {
      const auto& matrix = matrices[m];
      const std::uint32_t low = own.transposed ? matrix[p][g] : matrix[g][p];
      const std::uint32_t high = own.transposed ? matrix[p + 1][g] : matrix[g][p + 1];
      own.words[m] = low | high << 16;
    }
  }
}

}  // namespace

void deliver(Collective kind, Thread* lanes) {
  switch (kind) {
    case Collective::barrier: break;
    case Collective::shuffle: exchange(lanes); break;
    case Collective::product: multiply(lanes); break;
    case Collective::matrix_load: load(lanes); break;
  }
}

int lane() { return running_block().current().number % kLanes; }

void* block_shared(std::size_t bytes, const std::type_info& type) {
  return running_block().shared(bytes, type);
}

void block_barrier(const Site& site) { running_block().barrier(site); }

bool last_block(unsigned* counter, unsigned blocks, const Site& site) {
  return running_block().last(counter, blocks, site);
}

void warp_barrier(const Site& site) { running_block().meet(Collective::barrier, site); }

float shuffle_xor(float value, int mask, const Site& site) {
  Block& block = running_block();
  const int source = lane() ^ mask;
  if (source < 0 || source >= kLanes)
    block.fail("asks lane " + std::to_string(source) + " in the shuffle of " + text(site));
  Operands& own = block.current().operands;
  own.value = value;
  own.source_lane = source;
  block.meet(Collective::shuffle, site);
  return own.result;
}

void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  float (*to_float)(std::uint16_t), const Site& site) {
  Block& block = running_block();
  Operands& own = block.current().operands;
  own.d = d;
  own.a = a;
  own.b = b;
  own.to_float = to_float;
  block.meet(Collective::product, site);
}

void load_matrices(std::uint32_t (&words)[4], const void* row, bool transposed, const Site& site) {
  Block& block = running_block();
  if (!block.in_shared(row, 16))
    block.fail("gives a row outside of the block's shared memory to the matrix load of " +
               text(site));
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    block.fail("gives a row that is not aligned to 16 bytes to the matrix load of " + text(site));
  note_read(row, 16);
  Operands& own = block.current().operands;
  own.words = words;
  own.row = row;
  own.transposed = transposed;
  block.meet(Collective::matrix_load, site);
}

}  // namespace emulator
