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
npy)
	for d in "'<f4', 'fortran_order': False, 'shape': (3, 4)" "'>i8', 'fortran_order': True, 'shape': ()"; do
		printf '\223NUMPY\1\0\177\0%-127s' "{'descr': $d, }" >"$2/v1$(printf %s "$d" | cksum | cut -c1-4)"
		printf '\223NUMPY\2\0\177\0\0\0%-127s' "{'descr': $d, }" >"$2/v2$(printf %s "$d" | cksum | cut -c1-4)"
	done ;;
record)
	head='{"model":"","version":1,"uid":1,"gid":2}'
	printf '%s\n' "$head" '{"dir":"d","uid":1,"gid":2}' '{"file":"d/f","uid":1,"gid":2}' '{"own":"d/f","number":1}' \
		'{"set":"d/f","what":"dtype","value":"U8"}' '{"set":"d/f","what":"name","value":"x"}' '{"size":"d/f","bytes":2}' \
		'{"freeze":"d/f","bytes":2}' '{"rename":"d/f","to":"g"}' '{"bound":"g","dtype":"U8","shape":"[2]","npy":1}' >"$2/own"
	printf '%s\n' "$head" '{"file":"f","uid":1,"gid":2}' '{"source":"/etc/hostname","number":1,"bytes":1}' \
		'{"ref":"f","start":0,"bytes":5,"offset":1,"source":1}' '{"ref":"f","start":2,"bytes":12,"offset":0,"number":2}' \
		'{"cut":"f","start":1,"bytes":1}' '{"owner":"f","uid":5,"gid":6}' '{"file":"e"}' '{"remove":"e"}' >"$2/ref"
	printf '%s\n' "$head" '{"metadata":"","key":"k","value":"v"}' '{"metadata":"","key":"k"}' '{"inherited":""}' '{"renamed":""}' \
		'{"committed":"","bytes":9,"device":1,"inode":2,"seconds":3,"nanoseconds":4,"took":5,"later":1}' >"$2/model" ;;
options)
	printf 'm.safetensors\n/mnt\n-o\nrw,nosuid,layout=flat,uid=0' >"$2/mount8"
	printf -- '--layout=tree\n--readahead=4M\nm\n/mnt\n--max_threads=3\n--umask=022' >"$2/long"
	printf -- '-fsvnrw\n-t\nfuse\n-o\nfsname=a\\,b\\\\c,x-foo=1,_netdev\n--\n-m\n/mnt' >"$2/letters" ;;
esac
