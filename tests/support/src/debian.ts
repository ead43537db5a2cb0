// SPDX-License-Identifier: Apache-2.0
// Manifests of Debian guests with disks, as a user writes them, and user data for console commands.
import { FEW_PORTS, ifaceManifest, networkManifest, type ManifestNic } from "./manifests.ts";

type Json = Readonly<Record<string, unknown>>;

/** Root's shell script: announces the guest and executes lines like the small guest. */
const PROFILE = `
set +o emacs
stty -echo
PS1=
mkdir -p /run/commands
say() { echo "<1>$*" >/dev/kmsg; }
command_not_found_handle() {
  id=$1
  mkdir "/run/commands/$id" 2>/dev/null || return
  say "$id begun"
  shift
  "$@" >"/run/commands/$id/output" 2>&1
  code=$?
  while IFS= read -r line; do say "$id $line"; done <"/run/commands/$id/output"
  say "$id done $code"
}
say guest ready
`;

/**
 * Runs at each boot before any login: root gets a shell on the serial port, and kernel messages have no timestamps. The
 * getty is configured by a file, because reloading units takes a second under emulation, as does `login`.
 */
const OBEY = `
echo N >/sys/module/printk/parameters/time
cat >/root/.bash_profile <<'PROFILE'
${PROFILE}
PROFILE
printf '#!/bin/sh\\nexec bash --login\\n' >/root/shell
chmod +x /root/shell
echo OPTIONS=\\"--skip-login --login-program /root/shell\\" >/run/getty
`;

/**
 * cloud-init user data that make a Debian guest's console obey like the small guest's, and print `guest ready`. A
 * command is a program and its arguments.
 */
export function obedientUserData(more: Json = {}): string {
  return `#cloud-config\n${JSON.stringify({ bootcmd: [["sh", "-c", OBEY]], ...more })}\n`;
}

/** A manifest's disk: an entry of `disks` and one of `volumes`, both without name. */
export interface ManifestDisk {
  readonly name: string;
  /** The volume, for example `{ containerDisk: { image: "debian12" } }`. */
  readonly volume: Json;
  /** Unset: a virtio hard disk. */
  readonly disk?: Json;
}

export interface DiskGuestOptions {
  readonly name: string;
  readonly disks: readonly ManifestDisk[];
  readonly nics?: readonly ManifestNic[];
  /** `spec.domain.firmware`; unset: BIOS. */
  readonly firmware?: Json;
  /** `spec.domain.features`. */
  readonly features?: Json;
}

const ON_VIRTIO: Json = { disk: { bus: "virtio" } };

/** This Debian ignores the power button, so a graceful shutdown would only wait. */
const GRACE_SECONDS = 1;

export function diskVmManifest(options: DiskGuestOptions): unknown {
  const { name, disks, nics = [{ name: "default" }], firmware, features } = options;
  const spec = {
    terminationGracePeriodSeconds: GRACE_SECONDS,
    domain: {
      machine: { type: "q35" },
      memory: { guest: "512Mi" },
      ...(firmware === undefined ? {} : { firmware }),
      ...(features === undefined ? {} : { features }),
      devices: {
        disks: disks.map(({ name: disk, disk: kind = ON_VIRTIO }) => ({ name: disk, ...kind })),
        interfaces: nics.map(ifaceManifest),
        pcieRootPorts: FEW_PORTS,
      },
    },
    networks: nics.map(networkManifest),
    volumes: disks.map(({ name: volume, volume: source }) => ({ name: volume, ...source })),
  };
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name, namespace: "default" },
    spec: { runStrategy: "Always", template: { spec } },
  };
}
