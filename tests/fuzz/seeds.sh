#!/bin/sh
# SPDX-License-Identifier: MIT
# seeds.sh TARGET DIR: puts what a fuzz target starts from into DIR.
set -eu
here=$(dirname "$0")
vectors=$here/../vectors
mkdir -p "$2"
case $1 in
header) cp "$vectors"/safetensors/*.safetensors "$vectors"/writer/*.safetensors "$2" ;;
json)
	for f in "$vectors"/safetensors/*.safetensors; do
		tail -c +9 "$f" >"$2/$(basename "$f" .safetensors)"
	done ;;
names)
	# Lines of one set each; escapes are left as they are, they are odd enough.
	awk -v dir="$2" '/"set":/ { gsub(/[^a-z_]/, "", $2); out = dir "/" $2 }
		/"name":/ { sub(/^ *"name": "/, ""); sub(/",$/, ""); print > out }' "$vectors/names.json" ;;
thin) cp "$here"/../fixtures/thin/archives/*.thin "$2" ;;
config | jtree)
	for f in "$here"/../fixtures/thin/*/*/config.json; do cp "$f" "$2/$(basename "$(dirname "$f")")"; done ;;
torch) # without the bomb: millions of opcodes, each of them watched
	for f in "$here"/../fixtures/torch/valid/* "$here"/../fixtures/torch/hostile/*; do
		case $f in *.json | *_bomb_*) ;; *) [ "$(wc -c <"$f")" -gt 20000 ] || cp "$f" "$2" ;; esac
	done ;;
zip)
	for f in "$here"/../fixtures/torch/valid/zip_* "$here"/../fixtures/torch/hostile/b*; do
		case $f in *.json | *_bomb_*) ;; *) [ "$(wc -c <"$f")" -gt 20000 ] || cp "$f" "$2" ;; esac
	done ;;
pickle)
	for f in "$here"/../fixtures/torch/valid/*.pt "$here"/../fixtures/torch/hostile/[cd]*.pt; do
		unzip -p "$f" '*/data.pkl' >"$2/$(basename "$f")" 2>/dev/null || rm -f "$2/$(basename "$f")"
	done ;;
options)
	printf 'm.safetensors\n/mnt\n-o\nrw,nosuid,layout=flat,uid=0' >"$2/mount8"
	printf -- '--layout=tree\n--readahead=4M\nm\n/mnt\n--max_threads=3\n--umask=022' >"$2/long"
	printf -- '-fsvnrw\n-t\nfuse\n-o\nfsname=a\\,b\\\\c,x-foo=1,_netdev\n--\n-m\n/mnt' >"$2/letters" ;;
esac
