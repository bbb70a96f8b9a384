/* Arrays as numpy's .npz: a ZIP file with an uncompressed .npy file for each.
 *
 * numpy.load(FILE)["layer0/weight"] is the array of that name, in its dtype and shape. Written
 * without a time, so that the same arrays give the same bytes.
 * Source: PKWARE's APPNOTE 6.3 (4.3.7, 4.3.12, 4.3.16); numpy's NEP 1.
 * Upstream: deploy/inspect/checkpoint.c. Thread: one. */
#ifndef ACORN_DEPLOY_INSPECT_NPZ_H
#define ACORN_DEPLOY_INSPECT_NPZ_H

#include "learner/params/checkpoint.h"

/* A word under a name: numpy.load(FILE)["activation"] == "tanh". At most
 * NPZ_TEXT_CHARACTERS, of ASCII. */
struct npz_text {
  const char *name, *value;
};
enum { NPZ_TEXT_CHARACTERS = 63 };

/* Writes the items, and the texts, under their names. A file that is there already is replaced once
 * the new one is whole. Errors: IO, with the path and the reason; INVALID: more than 4 GiB, which a
 * ZIP file without extensions cannot hold. */
MUST_CHECK enum status npz_write(const char *path, const struct checkpoint_item *items,
                                 int num_items, const struct npz_text *texts, int num_texts,
                                 struct error *error);

#endif
