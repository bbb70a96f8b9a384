#!/usr/bin/env bash
# Puts Python packages from PyPI into .venv, build/trackers, build/onnx or build/triton; silent when
# they are there.
# Usage: scripts/setup_python.sh GROUP (setup.sh calls it)
#   gym          Gymnasium with its Box2D environments, and ale-py with the games of the Atari
#   tensorboard  for the test that reads a run's event files with it
#   cuda         CUDA's compiler, headers and libraries, of the version that the plugin is tested
#                with; its tracing library and its memory checker, for scripts/gpu_check.sh
#   notebooks    pandas and matplotlib, for the test of docs/notebooks.md
#   trackers     mlflow and wandb, for the test of scripts/track.py
#   onnx         onnx, onnxruntime, Gymnasium and safetensors, for the test of scripts/export.sh
#   onnx_games   beside these what LunarLander and Pong need, for tests/bench/exported.sh
#   triton       Triton's clients, and onnxruntime, for test and benchmark of scripts/serve.sh
#   kubernetes   the schemas of Kubernetes, for the test of deploy/kubernetes
#   cv2          OpenCV, which Gymnasium's Atari preprocessing needs: our tests compare with it
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root" || exit 1
venv=.venv
case "${1:-}" in
  gym)
    packages=(gymnasium==1.4.0 ale-py==0.12.1 numpy==2.4.6 box2d==2.3.10 pygame-ce==2.5.8)
    without="environments in Python cannot be run"
    ;;
  tensorboard)
    packages=('tensorboard>=2.16,<3')
    without="its test will be skipped"
    ;;
  cuda)
    # The compiler comes in four parts.
    packages=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
      nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96 nvidia-cublas==13.1.0.3
      nvidia-cudnn-cu13==9.19.0.56 nvidia-cuda-cupti==13.0.85 nvidia-cuda-sanitizer-api==13.0.85)
    without="the GPU plugin cannot be built"
    ;;
  notebooks)
    packages=('pandas>=2.2,<4' 'matplotlib>=3.8,<4')
    without="its test will be skipped"
    ;;
  trackers)
    # What they need may not suit the environments of .venv. The databases are mlflow's.
    venv=build/trackers
    packages=('mlflow-skinny>=3.1,<4' 'sqlalchemy>=2,<3' 'alembic>=1.10,<2' 'wandb>=0.19,<1')
    without="the tests that send runs to them will be skipped"
    ;;
  onnx)
    venv=build/onnx
    packages=(onnx==1.23.2 onnxruntime==1.32.0 gymnasium==1.4.0 safetensors==0.8.0)
    without="what exported policies compute will not be tested"
    ;;
  onnx_games)
    venv=build/onnx
    packages=(gymnasium==1.4.0 ale-py==0.12.1 numpy==2.4.6 box2d==2.3.10 pygame-ce==2.5.8
      opencv-python-headless==5.0.0.93)
    without="exported policies cannot be played in LunarLander and Pong"
    ;;
  triton)
    venv=build/triton
    packages=('tritonclient[http,grpc]==2.73.0' onnxruntime==1.32.0)
    without="scripts/serve.sh will not be tested with Triton's clients"
    ;;
  kubernetes)
    packages=('kubernetes-validate>=1.31,<2')
    without="the test of deploy/kubernetes will be skipped"
    ;;
  cv2)
    packages=(opencv-python-headless==5.0.0.93)
    without="the tests that compare with Gymnasium's preprocessing will be skipped"
    ;;
  *)
    echo "setup_python: '${1:-}' is none of gym, tensorboard, cuda, notebooks, trackers," \
      "onnx, onnx_games, triton, kubernetes, cv2" >&2
    exit 2
    ;;
esac
python=$venv/bin/python

# Whether they are installed, in these versions where one is named.
are_there() {
  [ -x "$python" ] && "$python" - "${packages[@]}" <<'END' 2>/dev/null
import re, sys
from importlib.metadata import version
for package in sys.argv[1:]:
    name, pinned = re.match(r"([\w-]+)(?:\[.*\])?(?:==(.*))?", package).groups()
    if pinned not in (None, version(name)):
        sys.exit(1)
END
}

are_there && exit 0
echo "setup: installing ${packages[*]} into $venv" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The interpreter is the system's, for which libpython is there.
# One that was cut short has no pip, and is made again.
if ! { "$python" -m pip --version || /usr/bin/python3 -m venv --clear $venv; } >"$log" 2>&1 ||
  ! "$python" -m pip install --quiet "${packages[@]}" >>"$log" 2>&1; then
  tail -n 5 "$log" >&2
  echo "setup: ${packages[*]} could not be installed (above): $without" >&2
  exit 1
fi
