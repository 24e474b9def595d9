// The text fields of a training state. Free of LibTorch.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstdint>
#include <string>

namespace hydrascope::model::training {

/// The field of a state that names its run (`require_same_run`).
inline constexpr const char* kIdentityField = "identity";

/// Compares two descriptions of a run, JSON objects: the description of the run that goes on, and
/// the one in `file`. Throws Error(invalid_argument) naming the first entry that differs.
void require_same_run(const std::string& wanted, const std::string& of_state,
                      const std::string& file);

/// The number in field `key` of a state. Throws Error(decode_failed) naming `file` if there is
/// none.
std::int64_t integer_field(const checkpoint::Metadata& fields, const std::string& key,
                           const std::string& file);
double number_field(const checkpoint::Metadata& fields, const std::string& key,
                    const std::string& file);
/// Every digit of `value`, so that a resumed run goes on with the same number.
std::string to_field(double value);

}  // namespace hydrascope::model::training
