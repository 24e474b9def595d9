// The counts of a server, in the text format that Prometheus reads:
// https://prometheus.io/docs/instrumenting/exposition_formats/.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// Values at the moment, which their owners know.
struct MetricGauges {
  std::int64_t waiting = 0;  ///< requests in the queue
  std::int64_t most_waiting = 0;
  std::int64_t held_bytes = 0;   ///< of bodies, those that are still coming included
  std::int64_t layers_done = 0;  ///< of the work at hand
  std::int64_t layers = 0;
};

class ServeMetrics {
 public:
  /// `route` is one of the server's, or "other": never what a client wrote.
  void request(const std::string& route, int status, double seconds);
  void batch(std::int64_t images, double seconds);
  void picture(bool failed);
  [[nodiscard]] std::string text(const MetricGauges& gauges) const;

 private:
  struct Histogram {
    explicit Histogram(std::vector<double> its_limits)
        : limits(std::move(its_limits)), counts(limits.size(), 0) {}
    void add(double value);
    void write(std::string& text, const std::string& name, const std::string& labels) const;

    std::vector<double> limits;        ///< ascending; a last one is infinite
    std::vector<std::int64_t> counts;  ///< of values up to the limit
    std::int64_t count = 0;
    double sum = 0;
  };
  static Histogram of_seconds();

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::map<std::string, Histogram> request_seconds_;
  Histogram batch_images_{{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}};
  Histogram batch_seconds_ = of_seconds();
  std::int64_t pictures_ = 0;
  std::int64_t failed_ = 0;
};

/// The memory of this process, by /proc; 0 if /proc says nothing.
std::int64_t resident_bytes();

}  // namespace hydrascope::app
