// Regions of the picture that belong to registers (mechanisms/sparse/etc.cpp). The picture is cut
// into about as many cells as there are G registers; register g has the cells c with c mod G = g.
#pragma once

#include "model/attention/sparse/sparse_softmax.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace hydrascope::model {

/// The register of each image token, counted from the first register: (image tokens) int64 on the CPU.
/// The grid has registers.
at::Tensor register_of(const TokenGrid& grid);

/// Whether one of tokens first .. first + count and a token are a register and an image token that is
/// not its own: (count, N) bool on the CPU.
at::Tensor are_apart(const TokenGrid& grid, std::int64_t first, std::int64_t count);

/// Groups in which a register's patches see that register: every image token is in one of them.
std::vector<KeyGroups> region_groups(const TokenGrid& grid);

}  // namespace hydrascope::model
