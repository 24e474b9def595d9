#include "model/training/parallel/rendezvous.h"

#include "kernels/error.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

namespace hydrascope::model::training {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPoll(20);
/// A living rank sees its connections break within this time.
constexpr milliseconds kSignOfLife(1500);
/// How long one attempt to connect may take; an interruption counts between two attempts.
constexpr milliseconds kAttempt(1500);

std::string seconds_text(milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") +
         " s";
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

/// While it lives, c10d logs no stack traces of failed connections: their message becomes an Error.
/// Set TORCH_CPP_LOG_LEVEL to get the traces.
class QuietLog {
 public:
  QuietLog() {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
  ~QuietLog() { FLAGS_caffe2_log_level = level_; }

 private:
  int level_ = FLAGS_caffe2_log_level;
};

/// Groups that one run joins one after the other do not see each other's keys.
int next_group_number() {
  static std::atomic<int> next{0};
  return next++;
}

}  // namespace

std::string plain_message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

Rendezvous::Rendezvous(LaunchEnvironment launch, const JoinOptions& options)
    : launch_(std::move(launch)), timeout_(options.timeout) {
  const QuietLog quiet;
  connect(options);
  try {
    wait_for_all(options);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::failed,
                "the store that the ranks meet in went away: " + plain_message(error),
                "rank " + std::to_string(launch_.rank));
  }
}

void Rendezvous::connect(const JoinOptions& options) {
  const auto deadline = Clock::now() + options.join_timeout;
  c10d::TCPStoreOptions store_options;
  store_options.port = launch_.master_port;
  store_options.isServer = launch_.is_first() && !launch_.agent_store;
  store_options.waitWorkers = false;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    store_options.timeout = std::clamp(left, milliseconds(1), kAttempt);
    try {
      store_ = c10::make_intrusive<c10d::TCPStore>(launch_.master_addr, store_options);
      break;
    } catch (const c10::Error& error) {
      const std::string address = launch_.master_addr + ":" + std::to_string(launch_.master_port);
      if (store_options.isServer) {
        throw Error(ErrorCode::failed,
                    "rank 0 cannot serve at " + address + ": " + plain_message(error),
                    "MASTER_PORT", "is another run using the port?");
      }
      if (options.interrupted && options.interrupted())
        throw Error(ErrorCode::failed, "stopped while the processes were joining");
      if (Clock::now() < deadline) continue;
      throw Error(ErrorCode::failed,
                  "rank " + std::to_string(launch_.rank) + " waited " +
                      seconds_text(options.join_timeout) + " for the store at " + address,
                  "MASTER_ADDR",
                  launch_.agent_store ? "torchrun serves it; is it still running?"
                                      : "rank 0 serves it; has it started on that machine?");
    }
  }
  store_->setTimeout(options.join_timeout);
  if (launch_.agent_store) {
    store_ =
        c10::make_intrusive<c10d::PrefixStore>("/worker/attempt_" + launch_.restart_count, store_);
  }
  store_ = c10::make_intrusive<c10d::PrefixStore>(
      "hydrascope/group_" + std::to_string(next_group_number()), store_);
}

void Rendezvous::wait_for_all(const JoinOptions& options) {
  const auto deadline = Clock::now() + options.join_timeout;
  store_->set(key("joined", launch_.rank), std::vector<std::uint8_t>{1});
  std::vector<std::string> all;
  for (int rank = 0; rank < launch_.world_size; ++rank) all.push_back(key("joined", rank));
  while (!store_->check(all)) {
    if (options.interrupted && options.interrupted())
      throw Error(ErrorCode::failed, "stopped while the processes were joining");
    if (Clock::now() > deadline) {
      throw Error(ErrorCode::failed,
                  "rank " + std::to_string(launch_.rank) + " waited for " +
                      ranks_text(without("joined")) + " of " + std::to_string(launch_.world_size) +
                      " to join",
                  "WORLD_SIZE", "start every rank with the same MASTER_ADDR and MASTER_PORT");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

std::string Rendezvous::key(const std::string& what, int rank) const {
  return what + "/" + std::to_string(rank);
}

std::vector<int> Rendezvous::without(const std::string& what) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < launch_.world_size; ++rank) {
    if (!store_->check({key(what, rank)})) ranks.push_back(rank);
  }
  return ranks;
}

void Rendezvous::fail(const std::string& operation, const std::string& cause) {
  const QuietLog quiet;
  std::string who = "rank 0, which serves the store, is gone";
  try {
    store_->set(key("failed", launch_.rank), std::vector<std::uint8_t>{1});
    const auto deadline = Clock::now() + kSignOfLife;
    std::vector<int> silent = without("failed");
    while (!silent.empty() && Clock::now() < deadline) {
      std::this_thread::sleep_for(kPoll);
      silent = without("failed");
    }
    who = silent.empty() ? "every rank reports it" : ranks_text(silent) + " gives no sign of life";
    if (silent.size() > 1) who = ranks_text(silent) + " give no sign of life";
  } catch (const std::exception&) {
    if (launch_.agent_store) who = "torchrun, which serves the store, is gone";
  }
  throw Error(ErrorCode::failed, operation + " over all ranks failed, " + who + ": " + cause,
              "rank " + std::to_string(launch_.rank), "what that rank said before tells why");
}

}  // namespace hydrascope::model::training
