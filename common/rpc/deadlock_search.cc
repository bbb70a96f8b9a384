// Debian builds Abseil, whose locks gRPC takes dozens of times a message, with assertions: each
// lock then enters a graph in search of deadlocks. Abseil has a switch for that in C++ only.
#include <absl/synchronization/mutex.h>

extern "C" void core_end_deadlock_search(void) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}
