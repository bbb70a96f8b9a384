# Acorn. `make` builds the programs, `make test` runs the unit tests, `make help` lists the rest.
#
# MODE=release|asan|ubsan|tsan|fuzz|alloc|debug chooses a build; each has its own folder, so that they never mix.

# make's own rules would take a list of headers (x.d) for a program to link from x.d.o.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

MODE ?= release
BUILD := build$(if $(filter-out release,$(MODE)),/$(MODE))
CC := $(if $(filter fuzz,$(MODE)),clang,gcc)
CXX := g++

# WERROR=1, which CI sets: a warning is an error. A user's newer compiler must not fail for one.
WERROR ?=
WARN_BOTH := -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wimplicit-fallthrough $(if $(WERROR),-Werror)
WARN := $(WARN_BOTH) -Wstrict-prototypes -Wmissing-prototypes
FAST := -O3 -fno-math-errno -fno-trapping-math -fno-signed-zeros -ffp-contract=fast
MODE_FLAGS_release := -O2 -g
MODE_FLAGS_debug := -O0 -g
MODE_FLAGS_alloc := -O2 -g
MODE_FLAGS_asan := -O1 -g -fsanitize=address -fno-omit-frame-pointer
MODE_FLAGS_ubsan := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
MODE_FLAGS_tsan := -O1 -g -fsanitize=thread
MODE_FLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
MODE_FLAGS := $(MODE_FLAGS_$(MODE))
ifeq ($(MODE_FLAGS),)
$(error MODE=$(MODE) is not one of release debug alloc asan ubsan tsan fuzz)
endif

CPPFLAGS := -D_GNU_SOURCE -I. -I$(BUILD)/gen
# Hidden: what a plugin brings with it (numpy has a random_uniform of its own) must not meet ours.
CFLAGS := -std=gnu11 $(MODE_FLAGS) -march=x86-64-v2 $(WARN) -fno-common -fvisibility=hidden -pthread -MMD -MP
LDFLAGS := $(filter-out -O%,$(MODE_FLAGS)) -pthread
# --wrap counts the allocations of our own objects (tests/alloc).
WRAP_alloc := -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc
WRAP := $(WRAP_$(MODE))

LIBS_rpc := -lgrpc -lgpr -labsl_synchronization -lprotobuf-c
LIBS := $(LIBS_rpc) -luv -ljansson -ldl -lm
# The learner's alone; as needed, so that what has no kernels does not load it.
LIBS_kernels := -Wl,--as-needed -ldnnl -lgomp -Wl,--no-as-needed

# ---- sources: every .c file of a folder belongs to the folder's library; main files are programs.
src = $(sort $(wildcard $(1)))
BASE_SRC := $(call src,common/base/*.c common/cluster/*.c common/metrics/*.c common/picture/*.c)
RPC_SRC := $(call src,common/rpc/*.c)
RPC_CXX_SRC := $(call src,common/rpc/*.cc)
GYMNASIUM_SRC := $(call src,envs/gymnasium/*.c)
ENVS_SRC := $(filter-out $(GYMNASIUM_SRC),$(call src,envs/*.c envs/*/*.c))
ACTOR_SRC := $(filter-out actor/main.c,$(call src,actor/*.c))
# Kernel files are compiled several times, see below.
KERNEL_SRC := learner/device/cpu_kernels.c
REF_SRC := learner/device/ref.c
LEARNER_SRC := $(filter-out learner/main.c $(KERNEL_SRC) $(REF_SRC),$(call src,learner/*.c learner/*/*.c))
INSPECT_MAIN := $(foreach p,curves checkpoint interval,inspect/$(p).c)
DEPLOY_SRC := $(filter-out deploy/launch.c deploy/task.c inspect/status.c inspect/watch/watch.c $(INSPECT_MAIN), \
  $(call src,deploy/*.c inspect/*.c inspect/*/*.c))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
GEN_OBJ := $(BUILD)/obj/gen/acorn.pb-c.o
GEN_TENSORBOARD_OBJ := $(BUILD)/obj/gen/tensorboard.pb-c.o
KERNEL_OBJ := $(if $(wildcard $(KERNEL_SRC)),$(foreach v,v2 v3 v4,$(BUILD)/obj/learner/device/cpu_kernels_$(v).o))
REF_OBJ := $(if $(wildcard $(REF_SRC)),$(foreach v,float double,$(BUILD)/obj/learner/device/ref_$(v).o))

LIB_BASE := $(BUILD)/libbase.a
LIB_RPC := $(BUILD)/librpc.a
LIB_ENVS := $(BUILD)/libenvs.a
LIB_ACTOR := $(BUILD)/libactor.a
LIB_LEARNER := $(BUILD)/liblearner.a
LIB_DEPLOY := $(BUILD)/libdeploy.a
ALL_LIBS := $(LIB_LEARNER) $(LIB_DEPLOY) $(LIB_ACTOR) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE)

PROGRAMS := $(foreach p,learner actor launch status task curves checkpoint interval watch,$(BUILD)/$(p))
UNIT_SRC := $(shell find tests/unit -name 'test_*.c' 2>/dev/null | sort)
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT_SRC))
BENCH_SRC := $(call src,tests/bench/bench_*.c)
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(BENCH_SRC))
FUZZ_SRC := $(call src,tests/fuzz/fuzz_*.c)
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ_SRC))

.PHONY: all bundle test units bench lint format asan ubsan tsan fuzz headers install info help clean bench-programs python
.SECONDARY:
all: $(PROGRAMS) ## the programs: learner, actor, launch, status, task, and those that look at runs

$(BUILD)/learner: $(BUILD)/obj/learner/main.o $(LIB_LEARNER) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE)
$(BUILD)/actor: $(BUILD)/obj/actor/main.o $(LIB_ACTOR) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE)
$(BUILD)/launch: $(BUILD)/obj/deploy/launch.o $(ALL_LIBS)
$(patsubst inspect/%.c,$(BUILD)/%,$(INSPECT_MAIN)): $(BUILD)/%: $(BUILD)/obj/inspect/%.o $(ALL_LIBS)
$(BUILD)/watch: $(BUILD)/obj/inspect/watch/watch.o $(ALL_LIBS)
$(BUILD)/status: $(BUILD)/obj/inspect/status.o $(LIB_DEPLOY) $(LIB_RPC) $(LIB_BASE)
$(BUILD)/task: $(BUILD)/obj/deploy/task.o $(ALL_LIBS)
# Libraries beside a program come first (make bundle). The old kind of path, rpath, also holds for what those
# libraries load.
BESIDE := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'
EXTRA_OBJ := $(if $(filter alloc,$(MODE)),$(BUILD)/obj/tests/alloc/wrap.o)
$(PROGRAMS): $(EXTRA_OBJ) Makefile
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(BESIDE) $(WRAP) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -rdynamic $(LIBS) \
	  $(if $(filter $(LIB_LEARNER),$^),$(LIBS_kernels))

bundle: $(BUILD)/bundle/acorn.tar.gz ## build/bundle/acorn: programs with their libraries, for other distributions
$(BUILD)/bundle/acorn.tar.gz: $(PROGRAMS) run_local.sh LICENSE scripts/lib.sh scripts/bundle.sh $(wildcard deploy/*.sh)
	@scripts/bundle.sh $(PROGRAMS)

# Environments in Python: the only part that needs python3-dev, and nothing else needs it.
.PHONY: gymnasium
gymnasium: $(BUILD)/gymnasium.so ## the way to environments in Python: gym:ID, atari
GYMNASIUM_OBJ := $(call obj,$(GYMNASIUM_SRC))
PYTHON_INCLUDE := $(firstword $(subst -I,-isystem,$(shell /usr/bin/python3-config --includes 2>/dev/null)))
$(GYMNASIUM_OBJ): CFLAGS += -fPIC $(PYTHON_INCLUDE)
$(BUILD)/obj/envs/gymnasium/screen.o: CFLAGS += $(if $(filter -O2,$(MODE_FLAGS)),-O3)
$(BUILD)/obj/envs/gymnasium/interpreter.o: envs/gymnasium/adapter.py envs/gymnasium/simulators.py
$(BUILD)/gymnasium.so: $(GYMNASIUM_OBJ)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) -shared -o $@ $^ $(shell /usr/bin/python3-config --embed --ldflags) -lm

$(LIB_BASE): $(call obj,$(BASE_SRC)) $(GEN_TENSORBOARD_OBJ)
$(LIB_RPC): $(call obj,$(RPC_SRC)) $(patsubst %.cc,$(BUILD)/obj/%.o,$(RPC_CXX_SRC)) $(GEN_OBJ)
$(LIB_ENVS): $(call obj,$(ENVS_SRC))
$(LIB_ACTOR): $(call obj,$(ACTOR_SRC))
$(LIB_LEARNER): $(call obj,$(LEARNER_SRC)) $(KERNEL_OBJ) $(REF_OBJ)
$(LIB_DEPLOY): $(call obj,$(DEPLOY_SRC))
$(ALL_LIBS):
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/obj/%.o: %.c | $(BUILD)/gen/acorn.pb-c.h $(BUILD)/gen/tensorboard.pb-c.h
	@mkdir -p $(@D)
	@echo "  cc     $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# What a library offers in C++ alone; without the mode's sanitizers, whose C++ part is not linked.
$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  c++    $<"
	@$(CXX) $(CPPFLAGS) -std=gnu++17 -O2 -g -march=x86-64-v2 $(WARN_BOTH) -fvisibility=hidden -pthread -MMD -MP -c -o $@ $<

# The CPU kernels: one file, three instruction sets; the table is chosen at start.
$(BUILD)/obj/learner/device/cpu_kernels_%.o: $(KERNEL_SRC)
	@mkdir -p $(@D)
	@echo "  cc     $< ($*)"
	@$(CC) $(CPPFLAGS) $(filter-out -O% -march=%,$(CFLAGS)) $(FAST) -march=x86-64-$* $(if $(filter v4,$*),-mprefer-vector-width=512) \
	  -DKERNELS=cpu_kernels_$* -c -o $@ $<

# The reference device: one file, two precisions.
$(BUILD)/obj/learner/device/ref_%.o: $(REF_SRC)
	@mkdir -p $(@D)
	@echo "  cc     $< ($*)"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -DREAL=$* -DREF_DEVICE=device_ref_$* -c -o $@ $<

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h: proto/%.proto
	@mkdir -p $(BUILD)/gen
	@echo "  proto  $<"
	@protoc-c --proto_path=proto --c_out=$(BUILD)/gen $<
$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(filter-out $(WARN),$(CFLAGS)) -c -o $@ $<

# ---- tests
TEST_COMMON := $(call obj,$(call src,tests/unit/support/*.c))
$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(TEST_COMMON) $(ALL_LIBS)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(WRAP_UNIT) -o $@ $< $(TEST_COMMON) -Wl,--start-group $(ALL_LIBS) -Wl,--end-group -lcmocka -rdynamic $(LIBS) $(LIBS_kernels)
$(BUILD)/tests/bench/%: $(BUILD)/obj/tests/bench/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(ALL_LIBS) -Wl,--end-group -rdynamic $(LIBS) $(LIBS_kernels)
# A fuzzer needs the parsers only: clang does not have to build the kernels.
PARSERS := $(call obj,$(call src,learner/params/checkpoint*.c) inspect/run_log.c inspect/status_view.c)
$(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(PARSERS) $(LIB_RPC) $(LIB_BASE)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(filter-out -fsanitize=%,$(LDFLAGS)) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

# The torture test fails each allocation and each gRPC batch of our own objects in turn.
$(BUILD)/tests/unit/test_torture: WRAP_UNIT := $(foreach f,malloc calloc realloc aligned_alloc strdup \
  grpc_call_start_batch,-Wl,--wrap=$(f))

units: $(UNIT)
# Targets with a recipe of their own install what they need; `units` wants scripts/setup.sh test.
test: ## build and run the unit tests, a process each
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory all units
	@scripts/run_units.sh $(UNIT)
bench-programs: all $(BENCH)
bench: ## every figure of the README, measured here
	@scripts/bench.sh
# What the system's libraries lock cannot be seen: they are not instrumented.
tsan: export TSAN_OPTIONS := ignore_noninstrumented_modules=1 $(TSAN_OPTIONS)
asan ubsan tsan: ## the unit tests under a sanitizer
	@$(MAKE) --no-print-directory MODE=$@ test
fuzz: ## the fuzzers, FUZZ_SECONDS each (default 20)
	@scripts/fuzz.sh
.PHONY: fuzz-programs
fuzz-programs: $(FUZZ)

lint: ## the rules that a script can check: includes, lengths, format
	@scripts/lint.sh
format: ## clang-format 14 over all C files
	@scripts/lint.sh --format
headers: $(BUILD)/gen/acorn.pb-c.h $(BUILD)/gen/tensorboard.pb-c.h ## every header compiles alone
	@scripts/setup.sh test
	@for h in $$(git ls-files -co --exclude-standard '*.h' $(if $(PYTHON_INCLUDE),,':!envs/gymnasium')); do \
	  $(CC) $(CPPFLAGS) $(PYTHON_INCLUDE) -std=gnu11 $(WARN) -Wno-unused -Werror -fsyntax-only -x c $$h || exit 1; done; echo "headers: each compiles alone"
python: build/python/acorn_pb2_grpc.py ## the protocol's modules for docs/python_actor.py (scripts/setup.sh python first)
build/python/acorn_pb2_grpc.py: proto/acorn.proto
	@mkdir -p $(@D)
	@protoc -Iproto --plugin=protoc-gen-grpc_python="$$(command -v grpc_python_plugin)" \
	  --python_out=$(@D) --grpc_python_out=$(@D) $<
PREFIX ?= /usr/local
install: ## acorn/env.h, for environments of one's own, to PREFIX/include (/usr/local)
	@install -D -m 644 envs/env.h $(DESTDIR)$(PREFIX)/include/acorn/env.h
	@echo "installed $(DESTDIR)$(PREFIX)/include/acorn/env.h"
info: ## what was found on this machine
	@scripts/info.sh
help: ## this list
	@grep -hE '^[a-z][a-z ]*:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z ]*):.*## (.*)/  \1|\2/' | awk -F'|' '{printf "%-22s %s\n",$$1,$$2}'
clean: ## remove the build folder
	rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
