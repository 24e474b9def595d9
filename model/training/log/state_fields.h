// What a training state says in words. Free of LibTorch.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstdint>
#include <string>

namespace hydrascope::model::training {

/// The field of a state that says which run it is of (`require_same_run`).
inline constexpr const char* kIdentityField = "identity";

/// Two descriptions of a run, JSON objects: of the one that goes on and of the one that wrote
/// `file`. Throws Error(invalid_argument) naming the first entry that differs.
void require_same_run(const std::string& wanted, const std::string& of_state,
                      const std::string& file);

/// The number that field `key` of a state is. Throws Error(decode_failed) naming `file` where there
/// is none.
std::int64_t integer_field(const checkpoint::Metadata& fields, const std::string& key,
                           const std::string& file);
double number_field(const checkpoint::Metadata& fields, const std::string& key,
                    const std::string& file);
/// Every digit of `value`: a resumed run goes on with the same number.
std::string to_field(double value);

}  // namespace hydrascope::model::training
