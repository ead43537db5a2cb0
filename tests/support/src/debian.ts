// SPDX-License-Identifier: Apache-2.0
// Manifests of guests that boot Debian from a disk, as a user writes them, and what makes their console obey.
import { FEW_PORTS, ifaceManifest, networkManifest, type ManifestNic } from "./manifests.ts";

type Json = Readonly<Record<string, unknown>>;

/** What root's shell does: says that the guest is up, and obeys lines as the small guest does. */
const PROFILE = `
set +o emacs
stty -echo
PS1=
mkdir -p /run/commands
say() { echo "<1>$*" >/dev/kmsg; }
command_not_found_handle() {
  id=$1
  mkdir "/run/commands/$id" 2>/dev/null || return
  shift
  "$@" >"/run/commands/$id/output" 2>&1
  code=$?
  while IFS= read -r line; do say "$id $line"; done <"/run/commands/$id/output"
  say "$id done $code"
}
say guest ready
`;

/**
 * Run at each boot, before anybody logs in: root has a shell on the serial port, and answers come without a time. The
 * image's login is told at its start, by a file: to read every unit anew takes a second under emulation, `login` as much.
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
 * User data of cloud-init with which the console of a Debian guest obeys like the small guest's, and prints `guest ready`.
 * A command is a program and its arguments.
 */
export function obedientUserData(more: Json = {}): string {
  return `#cloud-config\n${JSON.stringify({ bootcmd: [["sh", "-c", OBEY]], ...more })}\n`;
}

/** A disk of a manifest: an entry of `disks` and one of `volumes`, both without their name. */
export interface ManifestDisk {
  readonly name: string;
  /** The volume, for example `{ containerDisk: { image: "debian12" } }`. */
  readonly volume: Json;
  /** Absent: a hard disk on virtio. */
  readonly disk?: Json;
}

/** What differs between guests that boot from disks. */
export interface DiskGuestOptions {
  readonly name: string;
  readonly disks: readonly ManifestDisk[];
  readonly nics?: readonly ManifestNic[];
  /** `spec.domain.firmware`; absent: BIOS. */
  readonly firmware?: Json;
  /** `spec.domain.features`. */
  readonly features?: Json;
}

const ON_VIRTIO: Json = { disk: { bus: "virtio" } };

/** Debian here has nothing that hears the power button: whoever ends it would wait in vain. */
const GRACE_SECONDS = 1;

/** A VirtualMachine that boots from disks. */
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
