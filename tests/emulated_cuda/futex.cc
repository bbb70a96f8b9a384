#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

void hidden_wait(uint32_t *word, uint32_t value) {
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void hidden_wake(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void hidden_take(struct hidden_lock *lock) {
  while (__atomic_exchange_n(&lock->word, 1, __ATOMIC_ACQUIRE)) hidden_wait(&lock->word, 1);
}

void hidden_give(struct hidden_lock *lock) {
  __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
  hidden_wake(&lock->word);
}
