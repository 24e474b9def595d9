#include "app/serve/http_server.h"

#include "app/http/http_text.h"
#include "app/serve/api.h"
#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace hydrascope::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;
using boost::system::error_code;

constexpr std::uint32_t kMostHeaderBytes = 16384;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

std::string_view text_of(beast::string_view text) { return {text.data(), text.size()}; }

HttpRequest head_of(const Parser& parser) {
  const auto& message = parser.get();
  HttpRequest head;
  head.method = text_of(message.method_string());
  const Target target = split_target(text_of(message.target()));
  head.path = decoded_url(target.path, /*is_query=*/false);
  head.query = parse_query(target.query);
  for (const auto& field : message) {
    std::string& value = head.headers[lower_text(text_of(field.name_string()))];
    if (!value.empty()) value += ", ";
    value += text_of(field.value());
  }
  if (target.authority) head.headers["host"] = *target.authority;
  return head;
}

/// Whether a page of another origin asks, by Sec-Fetch-Site or by Origin. Browsers leave the first out of plain HTTP to
/// other machines, where Origin comes with every POST. Other clients send neither.
bool is_of_another_origin(const HttpRequest& head) {
  const std::string& site = head.header("sec-fetch-site");
  if (!site.empty() && site != "none" && site != "same-origin") return true;
  const std::string& origin = head.header("origin");
  if (origin.empty()) return false;
  // A proxy says what it was asked for. A page of another origin cannot: such headers need CORS, which is off.
  const auto forwarded = [&](const char* name, const std::string& otherwise) {
    const std::string& value = head.header(name);
    return value.empty() ? otherwise : value.substr(0, value.find(','));
  };
  const std::string scheme = forwarded("x-forwarded-proto", "http");
  std::string own = scheme + "://" + forwarded("x-forwarded-host", head.header("host"));
  const std::string_view usual_port = scheme == "https" ? ":443" : ":80";
  if (own.ends_with(usual_port)) own.resize(own.size() - usual_port.size());
  return lower_text(origin) != lower_text(own);
}

}  // namespace

const std::string& HttpRequest::header(const std::string& name) const {
  static const std::string kNone;
  const auto found = headers.find(name);
  return found == headers.end() ? kNone : found->second;
}

namespace {
class Session;
}

struct HttpServer::State {
  State(HttpServerOptions given, ServeApi& its_api)
      : options(std::move(given)),
        api(its_api),
        context(options.threads),
        work(context.get_executor()),
        acceptor(asio::make_strand(context)) {}

  void listen();
  void accept();
  void add(Session* session);
  void remove(Session* session);

  HttpServerOptions options;
  ServeApi& api;
  tcp::endpoint endpoint;  // as it is bound
  std::atomic<bool> draining = false;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex.
  std::set<Session*> sessions;
  bool is_full = false;
  asio::io_context context;  // its handlers keep sessions, which use what is above
  /// Answers come from other threads: there may be nothing to do here meanwhile.
  asio::executor_work_guard<asio::io_context::executor_type> work;
  tcp::acceptor acceptor;
  std::vector<std::thread> threads;
};

namespace {

/// A connection: one request after the other. All of its work happens on its strand.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket&& socket, HttpServer::State& server)
      : stream_(std::move(socket)), timer_(stream_.get_executor()), server_(server) {
    server_.add(this);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    release();
    server_.remove(this);
  }

  void run() {
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    stream_.socket().non_blocking(true, ignored);  // of what is read by hand
    asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->read_head(); });
  }
  /// Ends it where no request is under way.
  void close_when_idle() {
    asio::post(stream_.get_executor(), [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && self->is_idle_) self->close();
    });
  }

 private:
  void read_head() {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(server_.options.max_body_bytes);
    is_idle_ = true;
    if (server_.draining) return close();
    limit_to(server_.options.timeout);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, std::size_t) {
                              self->is_idle_ = false;
                              self->begin_ = Clock::now();
                              self->on_head(error);
                            });
  }

  void on_head(error_code error) {
    if (error == http::error::body_limit) {  // as its length was announced
      head_ = head_of(*parser_);
      return refuse(413, too_large());
    }
    if (error == http::error::header_limit)
      return refuse(431,
                    "expected a header of at most " + std::to_string(kMostHeaderBytes) + " bytes");
    if (error) return end_reading(error);
    head_ = head_of(*parser_);
    const auto& message = parser_->get();
    const auto hosts = message.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && message.version() >= 11))
      return refuse(400, "expected one Host header");
    if (server_.endpoint.address().is_loopback() && head_.headers.contains("host") &&
        !names_loopback(head_.header("host"), server_.options.host))
      return refuse(403, "expected localhost or its address as the host, found '" +
                             head_.header("host").substr(0, 100) + "'");
    if (is_of_another_origin(head_))
      return refuse(403, "expected this server's own page to ask, found one of another origin");
    if (const std::string& coding = head_.header("transfer-encoding");
        !coding.empty() && lower_text(coding) != "chunked")
      return refuse(501, "expected no transfer coding but chunked");
    const auto length = parser_->content_length();
    if (head_.method == "POST" && !length && !parser_->chunked())
      return refuse(411, "expected Content-Length");
    const bool has_body = parser_->chunked() || (length && *length > 0);
    if (const std::optional<HttpResponse> refusal = server_.api.admit(head_, has_body))
      return refuse(*refusal);
    if (lower_text(head_.header("expect")) == "100-continue" && buffer_.size() == 0)
      return say_continue();
    read_body();
  }

  void end_reading(error_code error) {
    // An idle connection ends without a word; half a request deserves one.
    if (is_late_ && (parser_->got_some() || buffer_.size() > 0))
      return refuse(408, "the request took too long");
    const bool is_of_http =
        error.category() == http::make_error_code(http::error::bad_method).category();
    if (is_of_http && error != http::error::end_of_stream && error != http::error::partial_message)
      return refuse(400, "no HTTP request: " + error.message());
    close();
  }

  void say_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    limit_to(server_.options.timeout);
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    limit_to(server_.options.timeout);
    read_part();
  }

  void read_part() {
    if (parser_->is_done()) return on_body();
    http::async_read_some(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->on_part(error); });
  }

  void on_part(error_code error) {
    if (error == http::error::body_limit) return refuse(413, too_large());
    if (is_late_ && !error) error = asio::error::operation_aborted;  // between two parts
    if (error) return end_reading(error);
    const std::uint64_t bytes = parser_->get().body().size() - held_bytes_;
    if (const std::optional<HttpResponse> refusal = server_.api.hold(bytes))
      return refuse(*refusal);
    held_bytes_ += bytes;
    read_part();
  }

  void on_body() {
    limit_to({});
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    HttpRequest request = head_;
    request.body = std::move(parser_->get().body());
    request.gone = gone_ = std::make_shared<std::atomic<bool>>(false);
    watch();
    // The answer comes from other threads, perhaps when this server is no more; then nobody waits.
    const auto respond = [self = shared_from_this()](HttpResponse response) {
      asio::post(self->stream_.get_executor(), [self, response = std::move(response)]() mutable {
        self->write(std::move(response), self->keep_alive_ && !self->server_.draining);
      });
    };
    server_.api.answer(std::move(request), respond);
  }

  /// While the request is answered: whether the client closes its side. Bytes that it sends instead belong to
  /// the next request, and end the watch.
  void watch() {
    stream_.socket().async_wait(
        tcp::socket::wait_read, [weak = weak_from_this(), gone = gone_](error_code error) {
          const auto self = error ? nullptr : weak.lock();
          if (!self) return;
          char byte = 0;
          self->stream_.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, error);
          if (error && error != asio::error::would_block) *gone = true;
        });
  }

  [[nodiscard]] std::string too_large() const {
    return "expected at most " + std::to_string(server_.options.max_body_bytes) +
           " bytes in the body";
  }
  void refuse(int status, const std::string& message) {
    version_ = 11;
    write(server_.api.refusal(status, message), /*keep_alive=*/false);
  }
  /// A body that the client may still send is not read as a request.
  void refuse(HttpResponse response) {
    version_ = parser_->get().version();
    write(std::move(response), parser_->get().keep_alive() && parser_->is_done());
  }

  void write(HttpResponse response, bool keep_alive) {
    release();
    server_.api.note(head_, response, seconds_since(begin_));
    response_.emplace();
    response_->version(version_);
    response_->result(static_cast<unsigned>(response.status));
    response_->set(http::field::content_type, response.type);
    response_->set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) response_->set(name, value);
    response_->keep_alive(keep_alive);
    const bool is_head = head_.method == "HEAD";
    const std::size_t length = response.body.size();
    if (!is_head) response_->body() = std::move(response.body);
    response_->content_length(length);
    limit_to(server_.options.timeout);
    http::async_write(stream_, *response_,
                      [self = shared_from_this(), keep_alive](error_code error, std::size_t) {
                        self->response_.reset();
                        if (error) return self->close();
                        if (!keep_alive) return self->linger();
                        self->head_ = {};
                        self->read_head();
                      });
  }

  /// A socket that is closed while the client still sends is reset, and the response lost: what
  /// comes is thrown away for a while.
  void linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    constexpr double kSeconds = 2;
    limit_to(kSeconds);
    discard();
  }
  void discard() {
    stream_.async_read_some(asio::buffer(rubbish_),
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (error) return self->close();
                              self->discard();
                            });
  }

  /// Work that is under way, and work that begins until the next call, is cancelled after so many seconds.
  void limit_to(std::optional<double> seconds) {
    is_late_ = false;
    const std::uint64_t number = ++limit_;
    timer_.cancel();
    if (!seconds) return;
    timer_.expires_after(milliseconds_of(*seconds));
    timer_.async_wait([weak = weak_from_this(), number](error_code error) {
      const auto self = error ? nullptr : weak.lock();
      if (!self || self->limit_ != number) return;
      self->is_late_ = true;
      self->stream_.cancel();
    });
  }

  void release() noexcept { server_.api.release(std::exchange(held_bytes_, 0)); }
  void close() {
    release();
    limit_to({});
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

  beast::tcp_stream stream_;
  asio::steady_timer timer_;
  HttpServer::State& server_;
  beast::flat_buffer buffer_{kMostHeaderBytes + 65536};
  std::optional<Parser> parser_;
  std::optional<http::response<http::string_body>> response_;
  HttpRequest head_;
  Clock::time_point begin_{};
  std::uint64_t held_bytes_ = 0;  ///< of the body, as the api counts them
  std::shared_ptr<std::atomic<bool>> gone_;
  bool is_idle_ = false;  ///< between two requests, or in a header
  bool keep_alive_ = false;
  bool is_late_ = false;
  std::uint64_t limit_ = 0;
  unsigned version_ = 11;
  std::array<char, 16384> rubbish_{};
};

}  // namespace

void HttpServer::State::listen() {
  try {
    tcp::resolver resolver(context);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive);
    endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen(asio::socket_base::max_listen_connections);
    endpoint = acceptor.local_endpoint();
  } catch (const boost::system::system_error& error) {
    throw Error(ErrorCode::failed, "cannot listen: " + error.code().message(),
                options.host + ":" + std::to_string(options.port), "another `port` may be free");
  }
}

void HttpServer::State::accept() {
  acceptor.async_accept(asio::make_strand(context), [this](error_code error, tcp::socket socket) {
    if (draining || error == asio::error::operation_aborted) return;
    if (!error) std::make_shared<Session>(std::move(socket), *this)->run();
    const std::lock_guard lock(mutex);
    const bool lacks_files = error == error_code(EMFILE, boost::system::system_category());
    is_full = !sessions.empty() && (lacks_files || sessions.size() >= options.max_connections);
    if (!is_full) accept();
  });
}

void HttpServer::State::add(Session* session) {
  const std::lock_guard lock(mutex);
  sessions.insert(session);
}

void HttpServer::State::remove(Session* session) {
  {
    const std::lock_guard lock(mutex);
    sessions.erase(session);
    if (std::exchange(is_full, false) && !draining)
      asio::post(acceptor.get_executor(), [this] { accept(); });
  }
  changed.notify_all();
}

namespace {

/// A lack of memory for one connection ends that connection.
void run(asio::io_context& context) {
  while (!context.stopped()) {
    try {
      context.run();
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace

HttpServer::HttpServer(const HttpServerOptions& options, ServeApi& api)
    : state_(std::make_unique<State>(options, api)) {
  State& state = *state_;
  state.listen();
  asio::post(state.acceptor.get_executor(), [&state] { state.accept(); });
  kernels::device::start_threads(state.threads, options.threads,
                                 [&state](int) { run(state.context); });
}

HttpServer::~HttpServer() {
  drain(0);
  stop();
}

void HttpServer::stop() {
  state_->context.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

bool HttpServer::drain(double seconds) {
  State& state = *state_;
  state.draining = true;
  asio::post(state.acceptor.get_executor(), [&state] {
    error_code ignored;
    state.acceptor.close(ignored);
  });
  std::unique_lock lock(state.mutex);
  const auto end = std::chrono::steady_clock::now() + milliseconds_of(seconds);
  const auto idle_ones = [&] {
    for (Session* session : state.sessions) session->close_when_idle();
  };
  idle_ones();
  return state.changed.wait_until(lock, end, [&] { return state.sessions.empty(); });
}

std::string HttpServer::address() const { return state_->endpoint.address().to_string(); }
std::uint16_t HttpServer::port() const { return state_->endpoint.port(); }
bool HttpServer::is_loopback() const { return state_->endpoint.address().is_loopback(); }

}  // namespace hydrascope::app
