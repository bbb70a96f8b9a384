/* A folder for the files of one test, and small text files in it. What goes wrong ends the test
 * program. */
#ifndef ACORN_TESTS_SUPPORT_TEMPORARY_FOLDER_H
#define ACORN_TESTS_SUPPORT_TEMPORARY_FOLDER_H

enum { TEMPORARY_FOLDER_BYTES = 64, TEMPORARY_PATH_BYTES = 256, TEMPORARY_TEXT_BYTES = 8192 };

/* A folder for a group of tests: cmocka's fixtures, and where it is. */
int temporary_folder_setup(void **state);
int temporary_folder_teardown(void **state);
const char *temporary_folder(void);

/* Makes an empty one. */
void temporary_folder_make(char folder[TEMPORARY_FOLDER_BYTES]);
/* Removes it with all that is in it. */
void temporary_folder_remove(const char *folder);

/* The path of a file in it. Owner: valid until the next call. */
const char *temporary_folder_path(const char *folder, const char *name);
void temporary_folder_write(const char *folder, const char *name, const char *text);
/* What is in the file; "" if it is not there. Owner: valid until the next call. */
char *temporary_folder_read(const char *folder, const char *name);

#endif
