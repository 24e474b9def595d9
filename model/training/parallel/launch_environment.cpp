#include "model/training/parallel/launch_environment.h"

#include "kernels/error.h"
#include "kernels/number_text.h"

#include <array>
#include <cstdlib>
#include <limits>
#include <optional>

namespace hydrascope::model::training {
namespace {

constexpr std::array<const char*, 4> kNeeded = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/// Nothing if it is unset or empty.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int> number(const char* name, int minimum, int maximum) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  const std::optional value = parse_number<int>(*text);
  if (!value || *value < minimum || *value > maximum) {
    throw Error(ErrorCode::invalid_argument,
                "expected a number from " + std::to_string(minimum) + " to " +
                    std::to_string(maximum) + ", found '" + *text + "'",
                name);
  }
  return value;
}

void check_all_or_none() {
  const char* given = nullptr;
  const char* missing = nullptr;
  for (const char* name : kNeeded) (variable(name) ? given : missing) = name;
  if (given != nullptr && missing != nullptr) {
    throw Error(ErrorCode::invalid_argument, std::string("is not set, but ") + given + " is",
                missing,
                "torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; unset all of them "
                "for one process");
  }
}

}  // namespace

LaunchEnvironment read_launch_environment() {
  constexpr int kMostRanks = 1 << 20;
  LaunchEnvironment launch;
  launch.world_size = number("WORLD_SIZE", 1, kMostRanks).value_or(1);
  if (launch.world_size == 1 && variable("WORLD_SIZE")) return launch;
  check_all_or_none();
  if (!launch.has_others()) return launch;

  launch.rank = *number("RANK", 0, launch.world_size - 1);
  launch.local_world_size = number("LOCAL_WORLD_SIZE", 1, launch.world_size).value_or(1);
  launch.master_addr = *variable("MASTER_ADDR");
  launch.master_port = static_cast<std::uint16_t>(
      *number("MASTER_PORT", 1, std::numeric_limits<std::uint16_t>::max()));
  launch.agent_store = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  launch.restart_count = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return launch;
}

}  // namespace hydrascope::model::training
