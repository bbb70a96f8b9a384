# Acorn. `make` builds the programs, `make test` runs the unit tests, `make help` lists the rest.
#
# MODE=release|asan|tsan|fuzz|alloc|debug chooses a build; each has its own folder, so that they never mix. asan also
# checks for undefined behaviour.

# make's own rules would take a list of headers (x.d) for a program to link from x.d.o.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

MODE ?= release
BUILD := build$(if $(filter-out release,$(MODE)),/$(MODE))
CC := $(if $(filter fuzz,$(MODE)),clang,gcc)
CXX := g++
# In the path, in CUDA's folder, or where scripts/setup.sh cuda installs it. NVCC= builds no plugin.
NVCC ?= $(shell scripts/find_cuda.sh nvcc)

# MPICH's, or that of another MPI. MPICC= builds no plugin for --learners_mpi.
MPICC ?= $(shell command -v mpicc.mpich || command -v mpicc)

# WERROR=1, which CI sets: a warning is an error. A user's newer compiler must not fail for one.
WERROR ?=
WARN_BOTH := -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wimplicit-fallthrough $(if $(WERROR),-Werror)
WARN := $(WARN_BOTH) -Wstrict-prototypes -Wmissing-prototypes
comma := ,
# Of instrumented loops -O3 makes no vectors, and takes two or three times as long to find that out. The
# address sanitizer sees what the checks of pointers would, which take as long to compile as it does.
FAST := $(if $(filter asan tsan,$(MODE)),-O1,-O3) \
  $(if $(filter asan,$(MODE)),-fno-sanitize=null$(comma)object-size$(comma)pointer-overflow) \
  -fno-math-errno -fno-trapping-math -fno-signed-zeros -ffp-contract=fast
MODE_FLAGS_release := -O2 -g
MODE_FLAGS_debug := -O0 -g
MODE_FLAGS_alloc := -O2 -g
# -g1: a sanitizer names functions and lines.
MODE_FLAGS_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
MODE_FLAGS_tsan := -O1 -g1 -fsanitize=thread
MODE_FLAGS_fuzz := -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
MODE_FLAGS := $(MODE_FLAGS_$(MODE))
# Two hundred programs hold the same libraries; their debug information would be 1.5 GB.
UNIT_LDFLAGS_release := -Wl,--strip-debug
# Half the time of ld for each of them.
UNIT_LD := $(if $(shell command -v ld.gold),-fuse-ld=gold)
ifeq ($(MODE_FLAGS),)
$(error MODE=$(MODE) is not one of release debug alloc asan tsan fuzz)
endif

CPPFLAGS := -D_GNU_SOURCE -I. -I$(BUILD)/gen
# Hidden: what a plugin brings with it (numpy has a random_uniform of its own) must not meet ours.
CFLAGS := -std=gnu11 $(MODE_FLAGS) -march=x86-64-v2 $(WARN) -fPIC -fno-common -fvisibility=hidden -pthread -MMD -MP
LDFLAGS := $(filter-out -O%,$(MODE_FLAGS)) -pthread
# --wrap counts the allocations of our own objects (tests/alloc).
WRAP_alloc := -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc
WRAP := $(WRAP_$(MODE))

LIBS_rpc := -lgrpc -lgpr -labsl_synchronization -lprotobuf-c
LIBS := $(LIBS_rpc) -luv -ljansson -ldl -lm
# The learner's alone; as needed, so that what has no kernels does not load it.
LIBS_kernels := -Wl,--as-needed -ldnnl -lgomp -lcrypto -Wl,--no-as-needed

# ---- sources: every .c file of a folder belongs to the folder's library; main files are programs.
src = $(sort $(wildcard $(1)))
BASE_SRC := $(call src,common/base/*.c common/cluster/*.c common/metrics/*.c common/picture/*.c)
RPC_SRC := $(call src,common/rpc/*.c common/wire/*.c)
RPC_CXX_SRC := $(call src,common/rpc/*.cc)
GYMNASIUM_SRC := $(call src,envs/gymnasium/*.c)
ENVS_SRC := $(filter-out $(GYMNASIUM_SRC),$(call src,envs/*.c envs/*/*.c))
ACTOR_SRC := $(filter-out actor/main.c,$(call src,actor/*.c))
# Kernel files are compiled several times, see below.
KERNEL_SRC := learner/device/cpu/cpu_kernels.c
REF_SRC := learner/device/ref/ref.c
LEARNER_SRC := $(filter-out learner/main.c learner/train/mpi_plugin.c $(KERNEL_SRC) $(REF_SRC),$(call src,learner/*.c learner/*/*.c learner/*/*/*.c))
INSPECT_MAIN := $(foreach p,curves checkpoint interval,deploy/inspect/$(p).c)
DEPLOY_SRC := $(filter-out deploy/launch/launch.c deploy/launch/task.c deploy/inspect/status.c deploy/inspect/parameters.c deploy/inspect/watch/watch.c \
  deploy/inspect/export/export.c deploy/serve/serve.c $(INSPECT_MAIN), \
  $(call src,deploy/*/*.c deploy/*/*/*.c))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
GEN_OBJ := $(BUILD)/obj/gen/acorn.pb-c.o
GEN_TENSORBOARD_OBJ := $(BUILD)/obj/gen/tensorboard.pb-c.o
GEN_ONNX_OBJ := $(BUILD)/obj/gen/onnx.pb-c.o
GEN_INFERENCE_OBJ := $(BUILD)/obj/gen/open_inference.pb-c.o
GEN_HEADERS := $(foreach p,acorn tensorboard onnx open_inference,$(BUILD)/gen/$(p).pb-c.h)
KERNEL_OBJ := $(if $(wildcard $(KERNEL_SRC)),$(foreach v,v2 v3 v4,$(BUILD)/obj/learner/device/cpu/cpu_kernels_$(v).o))
REF_OBJ := $(if $(wildcard $(REF_SRC)),$(foreach v,float double,$(BUILD)/obj/learner/device/ref/ref_$(v).o))

# The CUDA device is a plugin: by nvcc where it is found; for tests by g++, with an emulated runtime.
CUDA_SRC := $(call src,learner/device/cuda/*.cu)
PLUGIN_C_SRC := common/base/decimal.c common/base/status.c learner/device/shapes.c
EMULATION_SRC := $(call src,tests/emulated_cuda/*.cc)

LIB_BASE := $(BUILD)/libbase.a
LIB_RPC := $(BUILD)/librpc.a
LIB_ENVS := $(BUILD)/libenvs.a
LIB_ACTOR := $(BUILD)/libactor.a
LIB_LEARNER := $(BUILD)/liblearner.a
LIB_DEPLOY := $(BUILD)/libdeploy.a
LIB_TEST := $(BUILD)/libtest.a
ALL_LIBS := $(LIB_LEARNER) $(LIB_DEPLOY) $(LIB_ACTOR) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE)

PROGRAMS := $(foreach p,learner actor launch status parameters task curves checkpoint interval watch export serve,$(BUILD)/$(p))
# Under ThreadSanitizer what starts no thread, or compares numbers in those that other tests start, can show nothing,
# and takes a dozen times as long.
UNTHREADED := $(addprefix tests/unit/,bench/% common/cluster/% common/picture/% common/wire/% deploy/inspect/% \
  deploy/launch/% envs/% \
  learner/device/ref/% learner/learn/% learner/network/% learner/report/% learner/run/% learner/experience/test_pages% \
  learner/train/test_golden% $(addsuffix .c,actor/test_check_env $(addprefix learner/,experience/test_replay_damage \
  experience/test_replay_file experience/test_sum_tree train/test_curiosity train/test_gradient train/test_learning train/test_resume)))
UNIT_SRC := $(filter-out $(if $(filter tsan,$(MODE)),$(UNTHREADED)),$(shell find tests/unit -name 'test_*.c' 2>/dev/null | sort))
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT_SRC)) \
  $(BUILD)/tests/unit/emulated_cuda/test_emulated_cuda
BENCH_SRC := $(call src,tests/bench/bench_*.c)
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(BENCH_SRC))
FUZZ_SRC := $(call src,tests/fuzz/fuzz_*.c)
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ_SRC))

.PHONY: all cuda bundle wheel test units bench lint format asan tsan fuzz headers install info help clean bench-programs python
.SECONDARY:
all: $(PROGRAMS) $(BUILD)/libacorn_policy.so $(if $(filter release,$(MODE)),$(if $(NVCC),cuda) $(if $(MPICC),$(BUILD)/libacorn_mpi.so)) ## the programs: learner, actor, launch, status, task, and those that look at runs

# Written here and not by a rule, so that make -q sees a new commit; the programs alone are linked with it.
VERSION_HEADER := $(BUILD)/gen/acorn_version.h
VERSION_OBJ := $(BUILD)/obj/common/version_build.o
ifneq ($(MAKECMDGOALS),clean)
$(shell scripts/version.sh --header=$(VERSION_HEADER))
endif
$(VERSION_OBJ): $(VERSION_HEADER)
$(PROGRAMS): $(VERSION_OBJ)

$(BUILD)/learner: $(BUILD)/obj/learner/main.o $(LIB_LEARNER) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE)
$(BUILD)/actor: $(BUILD)/obj/actor/main.o $(LIB_ACTOR) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE)
$(BUILD)/launch: $(BUILD)/obj/deploy/launch/launch.o $(ALL_LIBS)
$(patsubst deploy/inspect/%.c,$(BUILD)/%,$(INSPECT_MAIN)): $(BUILD)/%: $(BUILD)/obj/deploy/inspect/%.o $(ALL_LIBS)
$(BUILD)/watch: $(BUILD)/obj/deploy/inspect/watch/watch.o $(ALL_LIBS)
$(BUILD)/export: $(BUILD)/obj/deploy/inspect/export/export.o $(ALL_LIBS)
$(BUILD)/serve: $(BUILD)/obj/deploy/serve/serve.o $(ALL_LIBS)
$(BUILD)/status $(BUILD)/parameters: $(BUILD)/%: $(BUILD)/obj/deploy/inspect/%.o $(LIB_DEPLOY) $(LIB_RPC) $(LIB_BASE)
$(BUILD)/task: $(BUILD)/obj/deploy/launch/task.o $(ALL_LIBS)
# Libraries beside a program come first (make bundle). The old kind of path, rpath, also holds for what those
# libraries load.
BESIDE = -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/$(subst $(space),/,$(foreach folder,$(subst /, ,$(@D)),..))/lib'
EXTRA_OBJ := $(if $(filter alloc,$(MODE)),$(BUILD)/obj/tests/alloc/wrap.o)
$(PROGRAMS): $(EXTRA_OBJ) Makefile
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(BESIDE) $(WRAP) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -rdynamic $(LIBS) \
	  $(if $(filter $(LIB_LEARNER),$^),$(LIBS_kernels)) $(if $(filter %/serve,$@),-lmicrohttpd)

# What deploy/python/acorn loads: policies and environments, for programs that are no part of a run.
POLICY_OBJ := $(patsubst %,$(BUILD)/obj/deploy/python/%.o,policy vector)
$(BUILD)/libacorn_policy.so: $(POLICY_OBJ) $(LIB_LEARNER) $(LIB_DEPLOY) $(LIB_ENVS) $(LIB_RPC) $(LIB_BASE) Makefile
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) -shared $(if $(filter release,$(MODE)),-Wl$(comma)-z$(comma)defs) $(BESIDE) -o $@ $(filter %.o,$^) \
	  -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -Wl,--as-needed $(filter-out -lgrpc -lgpr -labsl%,$(LIBS)) $(LIBS_kernels)

# What scripts/gpu_check.sh runs besides: the tests that compare devices, and a benchmark. A bundle with the
# plugin has them, where libcmocka is.
GPU_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(filter-out %/test_cuda_plugin.c,$(shell \
  grep -lE 'emulated_cuda_(use|create)|testing_cuda|testing_each_|inference_parts\.h' $(UNIT_SRC))))
GPU_CHECK := $(GPU_TESTS) $(BUILD)/tests/bench/bench_device
.PHONY: gpu-check list-gpu-check
gpu-check: $(PROGRAMS) $(GPU_CHECK) $(if $(NVCC),cuda) ## what scripts/gpu_check.sh runs
$(GPU_CHECK): Makefile # whose path to libraries beside it a bundle needs
list-gpu-check:
	@printf '%s\n' $(GPU_TESTS)

BUNDLED := $(PROGRAMS) $(BUILD)/libacorn_policy.so $(if $(NVCC),$(BUILD)/libacorn_cuda.so $(if $(wildcard /usr/include/cmocka.h),$(GPU_CHECK)))
bundle: $(BUILD)/bundle/acorn.tar.gz ## build/bundle/acorn: programs with their libraries, for other distributions
$(BUILD)/bundle/acorn.tar.gz: $(BUNDLED) run_local.sh LICENSE scripts/acorn.sbatch $(wildcard deploy/*.sh scripts/*.sh scripts/*.py tests/bench/lib.sh tests/bench/bench_torch_gpu.py)
	@scripts/bundle.sh $(BUNDLED)

wheel: ## build/wheel/acorn_rl-*.whl: the bundle as a Python package, by pip and hatchling
	@scripts/wheel.sh

# The CUDA plugin, for each architecture from Ampere on: code for two, and PTX that later ones compile.
cuda: $(BUILD)/libacorn_cuda.so ## the plugin with the CUDA device; part of all where nvcc is found
CUDA_ARCH := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
  -gencode arch=compute_90,code=compute_90
CUDA_OBJ := $(patsubst %.cu,$(BUILD)/obj/%.o,$(CUDA_SRC)) $(patsubst %.c,$(BUILD)/obj/pic/%.o,$(PLUGIN_C_SRC))
CUDNN_HEADERS = $(shell scripts/find_cuda.sh dnn_headers)
space := $(subst ,, )
NVCC_CXXFLAGS := -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow $(if $(WERROR),-Werror)
$(BUILD)/obj/learner/device/cuda/%.o: learner/device/cuda/%.cu
	@$(if $(NVCC),,echo "make cuda needs nvcc: scripts/setup.sh cuda" >&2; exit 1)
	@mkdir -p $(@D)
	@echo "  nvcc   $<"
	@$(NVCC) $(CPPFLAGS) $(addprefix -isystem ,$(CUDNN_HEADERS)) -std=c++17 -O3 $(CUDA_ARCH) -Xcompiler $(subst $(space),$(comma),$(NVCC_CXXFLAGS)) \
	  $(if $(WERROR),-Werror all-warnings) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
# pip has the runtime in lib, where its nvcc does not look.
$(BUILD)/libacorn_cuda.so: $(CUDA_OBJ) Makefile
	@echo "  link   $@"
	@$(NVCC) -shared -cudart static -L$(dir $(NVCC))../lib -Xlinker -z,defs -o $@ $(filter %.o,$^)
$(BUILD)/obj/pic/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -c -o $@ $<

# Learners by MPI, for whose headers the compiler does not warn.
MPI_FLAGS = $(patsubst -I%,-isystem %,$(filter -I%,$(shell $(MPICC) -show)))
$(BUILD)/obj/pic/learner/train/mpi_plugin.o: CPPFLAGS += $(MPI_FLAGS)
$(BUILD)/libacorn_mpi.so: $(patsubst %,$(BUILD)/obj/pic/%.o,learner/train/mpi_plugin common/base/status common/base/decimal) Makefile
	@echo "  link   $@"
	@$(MPICC) $(LDFLAGS) -shared -Wl,-z,defs -o $@ $(filter %.o,$^)

# The same sources by g++. The runtime's own files are not instrumented by ThreadSanitizer: it must not see
# more order in them than a GPU has.
EMULATED_PLUGIN := $(BUILD)/tests/libacorn_cuda_emulated.so
EMULATED_CXXFLAGS := -std=gnu++17 $(MODE_FLAGS) -march=x86-64-v2 -Wall -Wextra -Wshadow $(if $(WERROR),-Werror) \
  -Itests/emulated_cuda -fPIC -fvisibility=hidden -pthread -MMD -MP
EMULATED_OBJ := $(patsubst %.cu,$(BUILD)/obj/emulated/%.o,$(CUDA_SRC)) \
  $(patsubst %.cc,$(BUILD)/obj/%.o,$(EMULATION_SRC)) $(patsubst %.c,$(BUILD)/obj/pic/%.o,$(PLUGIN_C_SRC))
$(BUILD)/obj/emulated/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  c++    $<"
	@$(CXX) $(CPPFLAGS) $(EMULATED_CXXFLAGS) -x c++ -c -o $@ $<
$(BUILD)/obj/tests/emulated_cuda/%.o: tests/emulated_cuda/%.cc
	@mkdir -p $(@D)
	@echo "  c++    $<"
	@$(CXX) $(CPPFLAGS) $(filter-out -fsanitize=thread,$(EMULATED_CXXFLAGS)) $(if $(filter tsan,$(MODE)),-DEMULATED_TSAN) \
	  -c -o $@ $<
$(EMULATED_PLUGIN): $(EMULATED_OBJ)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CXX) $(LDFLAGS) -shared $(if $(filter release,$(MODE)),-Wl$(comma)-z$(comma)defs) -o $@ $^

# The library that adds up for several learners on it. Its folder comes first in LD_LIBRARY_PATH.
EMULATED_NCCL := $(BUILD)/tests/nccl/libnccl.so.2
$(EMULATED_NCCL): tests/emulated_cuda/nccl.c
	@mkdir -p $(@D)
	@$(CC) $(OTHER_PLUGIN_FLAGS) -Wno-missing-prototypes -Wl,-soname,$(@F) -o $@ $<

# A plugin of another version, which is refused, and a library that is found by CUDA_HOME.
OTHER_PLUGINS := $(BUILD)/tests/libacorn_cuda_other.so $(BUILD)/tests/cuda_home/lib64/libabsent_cuda.so.13
OTHER_PLUGIN_FLAGS := $(CPPFLAGS) $(filter-out -fsanitize=% -MMD -MP,$(CFLAGS)) -fPIC -shared
$(BUILD)/tests/libacorn_cuda_other.so: tests/emulated_cuda/other_plugin.c learner/device/plugin.h learner/device/device.h
	@mkdir -p $(@D)
	@$(CC) $(OTHER_PLUGIN_FLAGS) -o $@ $<
$(BUILD)/tests/cuda_home/lib64/libabsent_cuda.so.13: tests/emulated_cuda/absent_library.c
	@mkdir -p $(@D)
	@$(CC) $(OTHER_PLUGIN_FLAGS) -Wl,-soname,$(@F) -o $@ $<

# The device `guarded` of the tests, as a plugin.
GUARDED_PLUGIN := $(BUILD)/tests/libguarded.so
GUARDED_SRC := $(filter-out %/idle_plugin.c,$(call src,tests/devices/*.c)) learner/device/ref/ref.c learner/device/shapes.c \
  $(foreach f,check clock crc32c decimal log random,common/base/$(f).c)
$(BUILD)/obj/pic/learner/device/ref/ref.o: CFLAGS += -DREAL=float -DREF_DEVICE=device_ref_float
$(GUARDED_PLUGIN): $(patsubst %.c,$(BUILD)/obj/pic/%.o,$(GUARDED_SRC))
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) -shared $(if $(filter release,$(MODE)),-Wl$(comma)-z$(comma)defs) -o $@ $^ -lm

# A device that computes nothing, for tests/bench/serving.sh.
IDLE_PLUGIN := $(BUILD)/tests/libidle.so
$(IDLE_PLUGIN): $(BUILD)/obj/pic/tests/devices/idle_plugin.o $(BUILD)/obj/pic/common/base/clock.o
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) -shared -o $@ $^

# The test of the emulation itself has kernels of its own.
EMULATION_TEST_OBJ := $(BUILD)/obj/emulated/tests/unit/emulated_cuda/test_emulated_cuda.o \
  $(patsubst %.cc,$(BUILD)/obj/%.o,$(EMULATION_SRC)) $(BUILD)/obj/tests/unit/support/aborts.o
$(BUILD)/obj/emulated/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  c++    $<"
	@$(CXX) $(CPPFLAGS) $(EMULATED_CXXFLAGS) -c -o $@ $<
$(BUILD)/tests/unit/emulated_cuda/test_emulated_cuda: $(EMULATION_TEST_OBJ)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CXX) $(LDFLAGS) -o $@ $^ -lcmocka

# Environments in Python: the only part that needs python3-dev, and nothing else needs it.
.PHONY: gymnasium
# One for the system's Python; PYTHON=PATH makes one for another, which is named after its path
# (envs/bridge.c finds it by ACORN_PYTHON).
PYTHON ?= /usr/bin/python3
OTHER_PYTHON := $(filter-out $(realpath /usr/bin/python3),$(realpath $(PYTHON)))
OTHER_NAME := gymnasium$(subst /,-,$(OTHER_PYTHON))
gymnasium: $(BUILD)/$(OTHER_NAME).so ## the way to environments in Python: gym:ID, atari; PYTHON=PATH: for that one
GYMNASIUM_OBJ := $(call obj,$(GYMNASIUM_SRC))
PYTHON_INCLUDE := $(firstword $(subst -I,-isystem,$(shell /usr/bin/python3-config --includes 2>/dev/null)))
GYMNASIUM_PY := $(wildcard envs/gymnasium/*.py)
$(GYMNASIUM_OBJ): CFLAGS += -fPIC $(PYTHON_INCLUDE)
$(BUILD)/obj/envs/gymnasium/screen.o: CFLAGS += $(if $(filter -O2,$(MODE_FLAGS)),-O3)
$(BUILD)/obj/envs/gymnasium/interpreter.o: $(GYMNASIUM_PY)
$(BUILD)/gymnasium.so: $(GYMNASIUM_OBJ)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) -shared -o $@ $^ $(shell /usr/bin/python3-config --embed --ldflags) -lm
ifneq ($(OTHER_PYTHON),)
OTHER_OBJ := $(patsubst envs/gymnasium/%.c,$(BUILD)/obj/envs/$(OTHER_NAME)/%.o,$(GYMNASIUM_SRC))
$(OTHER_OBJ): $(BUILD)/obj/envs/$(OTHER_NAME)/%.o: envs/gymnasium/%.c | $(BUILD)/gen/acorn.pb-c.h
	@mkdir -p $(@D)
	@echo "  cc     $< ($(PYTHON))"
	@flags=$$($(PYTHON) scripts/python_flags.py include) && $(CC) $(CPPFLAGS) $(CFLAGS) -fPIC $$flags -c -o $@ $<
$(BUILD)/obj/envs/$(OTHER_NAME)/interpreter.o: $(GYMNASIUM_PY)
$(BUILD)/$(OTHER_NAME).so: $(OTHER_OBJ)
	@echo "  link   $@"
	@flags=$$($(PYTHON) scripts/python_flags.py link) && $(CC) $(LDFLAGS) -shared -o $@ $^ $$flags -lm
endif

$(LIB_BASE): $(call obj,$(BASE_SRC)) $(GEN_TENSORBOARD_OBJ)
$(LIB_RPC): $(call obj,$(RPC_SRC)) $(patsubst %.cc,$(BUILD)/obj/%.o,$(RPC_CXX_SRC)) $(GEN_OBJ)
$(LIB_ENVS): $(call obj,$(ENVS_SRC))
$(LIB_ACTOR): $(call obj,$(ACTOR_SRC))
$(LIB_LEARNER): $(call obj,$(LEARNER_SRC)) $(KERNEL_OBJ) $(REF_OBJ)
$(LIB_DEPLOY): $(call obj,$(DEPLOY_SRC)) $(GEN_ONNX_OBJ) $(GEN_INFERENCE_OBJ)
$(ALL_LIBS) $(LIB_TEST):
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/obj/%.o: %.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  cc     $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# What a library offers in C++ alone; without the mode's sanitizers, whose C++ part is not linked.
$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  c++    $<"
	@$(CXX) $(CPPFLAGS) -std=gnu++17 -O2 -g -march=x86-64-v2 $(WARN_BOTH) -fvisibility=hidden -pthread -MMD -MP -c -o $@ $<

# The CPU kernels: one file, three instruction sets; the table is chosen at start. What -g says of
# each variable takes a third of the time, and is of little use in loops of vectors.
$(BUILD)/obj/learner/device/cpu/cpu_kernels_%.o: $(KERNEL_SRC)
	@mkdir -p $(@D)
	@echo "  cc     $< ($*)"
	@$(CC) $(CPPFLAGS) $(filter-out -O% -march=%,$(CFLAGS)) -g1 $(FAST) -march=x86-64-$* $(if $(filter v4,$*),-mprefer-vector-width=512) \
	  -DKERNELS=cpu_kernels_$* -c -o $@ $<

# Sums of arrays, which -O2 takes number by number. A fused multiply-add would round a learner's own
# part otherwise than the others do.
# Each learner adds up small sums for itself: to the same bits only without contraction.
$(BUILD)/obj/learner/train/peers.o: CFLAGS += -ffp-contract=off $(if $(filter -O2,$(MODE_FLAGS)),-O3)

# The reference device: one file, two precisions.
$(BUILD)/obj/learner/device/ref/ref_%.o: $(REF_SRC)
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
# Half of the address sanitizer's build are the tests, which -O1 takes twice as long to compile.
# A release's tests are stripped.
$(BUILD)/obj/tests/unit/%.o: CFLAGS += $(if $(filter asan,$(MODE)),-O0) $(if $(filter release,$(MODE)),-g0)
# A library, so that a test holds only what it uses; the kernels are not in all of them.
$(LIB_TEST): $(call obj,$(call src,tests/unit/support/*.c) $(filter-out %_plugin.c,$(call src,tests/devices/*.c)))
$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(LIB_TEST) $(ALL_LIBS) | $(EMULATED_PLUGIN) $(EMULATED_NCCL) $(OTHER_PLUGINS) $(GUARDED_PLUGIN)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(UNIT_LD) $(UNIT_LDFLAGS_$(MODE)) $(BESIDE) $(WRAP_UNIT) -o $@ $< -Wl,--start-group $(LIB_TEST) $(ALL_LIBS) -Wl,--end-group -lcmocka -rdynamic $(LIBS) $(LIBS_kernels)
# Programs of the tests of whole runs.
$(BUILD)/tests/integration/%: $(BUILD)/obj/tests/integration/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(BESIDE) -o $@ $< -Wl,--start-group $(ALL_LIBS) -Wl,--end-group -rdynamic $(LIBS) $(LIBS_kernels)
$(BUILD)/tests/bench/%: $(BUILD)/obj/tests/bench/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(LDFLAGS) $(BESIDE) -o $@ $< -Wl,--start-group $(ALL_LIBS) -Wl,--end-group -rdynamic $(LIBS) $(LIBS_kernels)
# A fuzzer needs the parsers only: clang does not have to build the kernels.
PARSERS := $(call obj,$(call src,learner/params/checkpoint*.c) learner/params/named.c deploy/inspect/run_log.c deploy/inspect/status_view.c \
  $(call src,deploy/serve/request*.c) learner/train/peers_hello.c learner/report/episodes_file.c $(call src,learner/episodes/*.c)) $(GEN_INFERENCE_OBJ)
$(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(PARSERS) $(LIB_RPC) $(LIB_BASE)
	@mkdir -p $(@D)
	@echo "  link   $@"
	@$(CC) $(filter-out -fsanitize=%,$(LDFLAGS)) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS) -lcrypto

# The torture test fails each allocation and each gRPC batch of our own objects in turn.
$(BUILD)/tests/unit/test_torture: WRAP_UNIT := $(foreach f,malloc calloc realloc aligned_alloc strdup \
  grpc_call_start_batch,-Wl,--wrap=$(f))

# Environments of its own.
$(BUILD)/tests/unit/envs/test_registry_apart: WRAP_UNIT := -Wl,--wrap=registry_find

# A file system without locks.
$(BUILD)/tests/unit/learner/run/test_folder: WRAP_UNIT := -Wl,--wrap=flock

# A resolver of its own; machines without NCCL.
$(BUILD)/tests/unit/learner/train/test_peers_links: WRAP_UNIT := -Wl,--wrap=getaddrinfo
$(BUILD)/tests/unit/learner/train/test_peers_devices: WRAP_UNIT := -Wl,--wrap=dlopen

units: $(UNIT)
.PHONY: list-units
list-units:
	@printf '%s\n' $(UNIT)
# Targets with a recipe of their own install what they need; `units` wants scripts/setup.sh test.
test: ## build and run the unit tests, a process each
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory all units
	@scripts/run_units.sh $(UNIT)
bench-programs: all $(BENCH)
bench: ## the rows of docs/benchmarks.md, measured here
	@scripts/bench.sh
tsan: export TSAN_OPTIONS := suppressions='$(CURDIR)/tests/tsan.supp' $(TSAN_OPTIONS)
asan tsan: ## the unit tests under sanitizers: of addresses and undefined behaviour, of threads
	@$(MAKE) --no-print-directory MODE=$@ test
fuzz: ## the fuzzers, FUZZ_SECONDS each (default 20)
	@scripts/fuzz.sh
.PHONY: fuzz-programs
fuzz-programs: $(FUZZ)

lint: ## the rules that a script can check: includes, lengths, format
	@scripts/lint.sh
format: ## clang-format 14 over all C files
	@scripts/lint.sh --format
# A header may have macros alone: no declaration, which -Wpedantic wants of a file.
headers: $(GEN_HEADERS) ## every header compiles alone
	@scripts/setup.sh test
	@git ls-files -co --exclude-standard '*.h' ':!learner/device/cuda' ':!tests/emulated_cuda' \
	  $(if $(PYTHON_INCLUDE),,':!envs/gymnasium') | xargs -P "$$(nproc)" -n 1 \
	  $(CC) $(CPPFLAGS) $(PYTHON_INCLUDE) -std=gnu11 $(filter-out -Wpedantic,$(WARN)) -Wno-unused -Werror -fsyntax-only -x c
	@echo "headers: each compiles alone"
$(BUILD)/protocol.desc: proto/acorn.proto # for acorn.actor of the Python package, which needs no generated code
	@mkdir -p $(@D)
	@protoc-c --proto_path=proto --descriptor_set_out=$@ $<
python: build/python/acorn_pb2_grpc.py ## the protocol's modules for docs/examples/actor.py (scripts/setup.sh python first)
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
