#include "app/scores/agreement.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::app {
namespace {

/// ln of the sum of exp.
double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

ComparedLogits compare_logits(std::span<const float> model, std::span<const float> reference) {
  ComparedLogits compared;
  const double normaliser = log_sum_exp(model);
  const double reference_normaliser = log_sum_exp(reference);
  double sum = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double log_p = reference[i] - reference_normaliser;
    const double log_q = model[i] - normaliser;
    compared.divergence += std::exp(log_p) * (log_p - log_q);
    const double difference = std::abs(double{model[i]} - double{reference[i]});
    // A difference that is no number stays.
    if (!(difference <= compared.largest_difference)) compared.largest_difference = difference;
    sum += difference;
  }
  compared.divergence = std::max(compared.divergence, 0.0);  // but for rounding
  compared.mean_difference = sum / static_cast<double>(model.size());
  return compared;
}

double mcnemar_p(std::int64_t only_model, std::int64_t only_reference) {
  const auto n = static_cast<double>(only_model + only_reference);
  const std::int64_t fewer = std::min(only_model, only_reference);
  // Twice the lower tail of the binomial distribution of n and 1/2.
  double tail = 0;
  for (std::int64_t i = 0; i <= fewer; ++i) {
    const auto k = static_cast<double>(i);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                     n * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

void Agreement::add(const ScoredPicture& model, const ScoredPicture& reference,
                    const ComparedLogits& compared) {
  ++images_;
  if (model.predicted == reference.predicted) ++same_;
  divergences_ += compared.divergence;
  differences_ += compared.mean_difference;
  if (!(compared.largest_difference <= largest_difference_))
    largest_difference_ = compared.largest_difference;
  reference_.add(reference);
  if (!model.is_labelled()) return;
  const bool right = model.is_right();
  const bool reference_right = reference.is_right();
  ++(right ? (reference_right ? counts_.both : counts_.only_model)
           : (reference_right ? counts_.only_reference : counts_.neither));
}

double Agreement::divergence() const { return divergences_ / static_cast<double>(images_); }

Agreement::Difference Agreement::top1_difference() const {
  const auto only_model = static_cast<double>(counts_.only_model);
  const auto only_reference = static_cast<double>(counts_.only_reference);
  const double n =
      static_cast<double>(counts_.both + counts_.neither) + only_model + only_reference;
  const double mean = (only_model - only_reference) / n;
  const double variance = ((only_model + only_reference) / n - mean * mean) * n / (n - 1);
  return {100 * mean, 100 * std::sqrt(variance / n)};
}

double Agreement::mean_difference() const { return differences_ / static_cast<double>(images_); }

}  // namespace hydrascope::app
