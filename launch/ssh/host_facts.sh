#!/usr/bin/env bash
# What launch/ssh/check asks of a host: `host_facts.sh PREFIX NAME...` prints lines `KEY VALUE`, and `end` last.
set -euo pipefail
prefix=$1
shift
PATH=$PATH:/usr/sbin:/sbin

binary=$prefix/bin/dtrain
if [ -x "$binary" ]; then
  echo "binary $(sha256sum "$binary" | cut -d' ' -f1)"
  # dtrain loads LibTorch's operators for GPUs itself, where there is a driver.
  operators=$(ldd "$binary" 2>/dev/null | awk '$1 == "libtorch_cpu.so" { sub("_cpu.so", "_cuda.so", $3); print $3 }' || true) # ldd fails on a script
  { ldd "$binary"; [ ! -e "$operators" ] || ldd "$operators"; } 2>/dev/null | awk '/not found/ && !seen[$1]++ { print "library", $1 }' || true
else
  echo "binary missing"
fi
if command -v orted >/dev/null; then
  echo "mpi $(orted --version 2>&1 | head -n 1)"
else
  echo "mpi missing"
fi
other='' # address of a host, and no name for the loopback
for name in "$@"; do
  address=$(getent ahostsv4 "$name" | awk 'NR == 1 { print $1 }' || true)
  echo "address $name ${address:-none}"
  [[ -n $other || $address = 127.* ]] || other=$address
done

# The networks of this host, and the one by which it is known.
network() { # of ADDRESS/LENGTH
  local address=${1%/*} length=${1#*/} a b c d number mask
  IFS=. read -r a b c d <<<"$address"
  number=$(((a << 24) + (b << 16) + (c << 8) + d)) mask=$(((0xffffffff << (32 - length)) & 0xffffffff))
  number=$((number & mask))
  echo "$((number >> 24)).$((number >> 16 & 255)).$((number >> 8 & 255)).$((number & 255))/$length"
}
own=$(getent ahostsv4 "$(uname -n)" | awk 'NR == 1 { print $1 }' || true)
# Debian gives a host's own name the address 127.0.1.1: then, the address from which it reaches another host counts.
if [[ -z $own || $own = 127.* ]] && [ -n "$other" ]; then
  own=$(ip -4 route get "$other" 2>/dev/null | sed -n 's/.* src \([0-9.]*\).*/\1/p' || true)
fi
while read -r _ device _ address _; do
  echo "interface $device $(network "$address")"
  [ "${address%/*}" != "$own" ] || echo "network $(network "$address")"
done < <(ip -o -4 address show scope global up 2>/dev/null || true)

echo "gpus $(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)"
echo "time $(date +%s)"
echo end
