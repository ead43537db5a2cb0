#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one CNI plugin as a runtime does, for each line of standard input: COMMAND SANDBOX INTERFACE CONFIG-FILE.
# Usage: by-hand.sh AT_ONCE BIN_DIR
set -eu
exec xargs -P "$1" -L 1 sh -c '
  export CNI_PATH="$0" CNI_COMMAND="$1" CNI_CONTAINERID="$2" CNI_NETNS="/run/netns/$2" CNI_IFNAME="$3"
  exec "$0/bridge" <"$4" >/dev/null' "$2"
