#include "app/benchmark/ceiling.h"

#include "app/run/terminal_text.h"
#include "app/run/words.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace hydrascope::app {
namespace {

using kernels::device::CpuCeiling;
using kernels::device::CpuRate;

struct NamedRate {
  const char* key;
  std::string_view name;
  std::string_view unit;
  CpuRate CpuCeiling::*rate;
};
constexpr NamedRate kNamedRates[] = {
    {"float32_gflop_per_s", "float32", "GFLOP/s", &CpuCeiling::float32},
    {"bfloat16_gflop_per_s", "bfloat16", "GFLOP/s", &CpuCeiling::bfloat16},
    {"int8_gop_per_s", "int8", "Gop/s", &CpuCeiling::int8},
    {"l2_gb_per_s", "L2", "GB/s", &CpuCeiling::l2_read},
    {"memory_gb_per_s", "memory", "GB/s", &CpuCeiling::memory_read}};
constexpr double kGigaOfRates = 1e9;
constexpr const char* kDisturbedRates = "disturbed";

}  // namespace

OrderedJson to_json(const CpuCeiling& ceiling) {
  OrderedJson json{{"threads", ceiling.threads}};
  OrderedJson disturbed = OrderedJson::array();
  for (const NamedRate& named : kNamedRates) {
    const CpuRate& rate = ceiling.*named.rate;
    json[named.key] = rate.best / kGigaOfRates;
    if (rate.disturbed) disturbed.push_back(named.name);
  }
  json[kDisturbedRates] = std::move(disturbed);
  return json;
}

std::string ceiling_text(const OrderedJson& ceiling) {
  std::vector<std::string> rates;
  for (const NamedRate& named : kNamedRates) {
    const auto found = ceiling.find(named.key);
    if (found == ceiling.end() || !found->is_number()) continue;
    const auto rate = found->get<double>();
    constexpr double kWhole = 100;
    rates.push_back(std::string(named.name) + ' ' + fixed(rate, rate < kWhole ? 1 : 0) + ' ' +
                    std::string(named.unit));
  }
  std::vector<std::string> disturbed;
  if (const auto found = ceiling.find(kDisturbedRates); found != ceiling.end() && found->is_array())
    for (const OrderedJson& name : *found)
      if (name.is_string()) disturbed.push_back(name.get<std::string>());
  return join_words(rates, ", ", ", ") +
         (disturbed.empty() ? "" : "; disturbed: " + join_words(disturbed, ", ", ", "));
}

bool are_alike(const OrderedJson& a, const OrderedJson& b) {
  constexpr double kMost = 1.15;
  return std::ranges::all_of(kNamedRates, [&](const NamedRate& named) {
    const auto in_a = a.find(named.key);
    const auto in_b = b.find(named.key);
    if (in_a == a.end() || in_b == b.end() || !in_a->is_number() || !in_b->is_number())
      return false;
    const auto [less, more] = std::minmax({in_a->get<double>(), in_b->get<double>()});
    return more <= kMost * less;
  });
}

}  // namespace hydrascope::app
