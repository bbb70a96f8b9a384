/* Tells the supervisor, over a pipe, that the run is over: an actor, that the learner has ended its
 * streams with "training done"; a learner, that it only has to end. An environment can end an actor
 * with exit code 0 (_exit, on any thread), but it does not send this.
 * Upstream: actor/main.c, learner/main.c. Downstream: deploy/supervisor*.c. Thread: main. */
#ifndef ACORN_COMMON_BASE_HOME_H
#define ACORN_COMMON_BASE_HOME_H

/* The variable with the number of a pipe that those who want to hear the word leave open. */
#define HOME_VARIABLE "ACORN_HOME_FD"
/* A word: the process's number, blanks, a line feed; so many bytes, which a pipe never divides. */
enum { HOME_WORD_BYTES = 16 };

/* Takes the variable out of the environment, before other code sees it. */
void home_init(void);

/* Says the word, if somebody wants to hear it. */
void home_say(void);

/* The process that the word `word` is of; 0: it is none. */
int home_read(const char word[HOME_WORD_BYTES]);

#endif
