// The program's message when nothing is left that could catch an exception.
#pragma once

namespace hydrascope::app {

/// From now on an exception that nobody catches, in a thread or before main, ends the process with
/// one line and kExitFailed where memory or threads are short. Other ones abort, as without this.
/// Takes no memory; may be called before the initialisers of any library.
void install_last_words() noexcept;

}  // namespace hydrascope::app
