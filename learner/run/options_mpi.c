/* --learners_mpi: what MPI's launcher has told, as options. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/cluster/learner_address.h"
#include "common/cluster/mpi_world.h"
#include "learner/run/options.h"

static enum status set(struct learner_options *options, const char *name, const char *value,
                       struct error *error) {
  return options_set(&learner_options_table, options, name, value, "--learners_mpi", error);
}

static enum status set_number(struct learner_options *options, const char *name, int value,
                              struct error *error) {
  char text[16];
  snprintf(text, sizeof(text), "%d", value);
  return set(options, name, text, error);
}

static enum status check(const struct learner_options *options, int size, struct error *error) {
  if (size < 2)
    return status_fail(error, STATUS_INVALID,
                       "--learners_mpi, and MPI has started this process alone: start several "
                       "(mpiexec -n N), or leave --learners_mpi out");
  if (options_given(&learner_options_table, options, "learners") && options->learners != size)
    return status_fail(error, STATUS_INVALID,
                       "--learners=%lld with --learners_mpi, and MPI has started %d processes: "
                       "leave --learners out, or start as many",
                       (long long)options->learners, size);
  if (options->logdir[0]) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--learners_mpi without --logdir: give --logdir=RUN_FOLDER; learner RANK has "
                     "RUN_FOLDER/learner-RANK");
}

/* Ports and folders of a rank above 0, as those that a learner starts have them. */
static enum status take_rank(struct learner_options *options, int rank, bool listens,
                             struct error *error) {
  char text[PATH_MAX];
  enum status status = STATUS_OK;
  if (listens || options_given(&learner_options_table, options, "listen")) {
    learner_address(text, options->listen, rank);
    status = set(options, "listen", text, error);
  }
  if (status == STATUS_OK) status = set(options, "metrics_port", "0", error);
  if (snprintf(text, sizeof(text), "%s/learner-%d", options->logdir, rank) >= (int)sizeof(text))
    return status_fail(error, STATUS_INVALID, "--logdir: the path is too long");
  return status == STATUS_OK ? set(options, "logdir", text, error) : status;
}

/* run_local.sh has given the learner that it starts all of it. */
enum status learner_options_take_mpi(struct learner_options *options, bool listens,
                                     struct error *error) {
  int rank, size;
  if (!options->learners_mpi) return STATUS_OK;
  if (strcmp(options->mode, "evaluate") == 0)
    return status_fail(error, STATUS_INVALID,
                       "--learners_mpi with --mode=evaluate: one learner plays; leave it out");
  if (!mpi_world_find(&rank, &size))
    return status_fail(error, STATUS_INVALID,
                       "--learners_mpi, and no launcher of MPI has started this process: put "
                       "mpiexec -n N, or srun --mpi=pmi2 -n N, in front of the command");
  if (listens && options->learner_rank == rank && options->learners == size) return STATUS_OK;
  if (options->learner_rank >= 0)
    return status_fail(error, STATUS_INVALID,
                       "--learner_rank=%lld with --learners_mpi: MPI gives ranks, here %d of %d; "
                       "leave it out",
                       (long long)options->learner_rank, rank, size);
  enum status status = check(options, size, error);
  if (status == STATUS_OK) status = set_number(options, "learners", size, error);
  if (status == STATUS_OK) status = set_number(options, "learner_rank", rank, error);
  return status == STATUS_OK && rank > 0 ? take_rank(options, rank, listens, error) : status;
}
