// SPDX-License-Identifier: Apache-2.0
// How much memory a launcher takes beside its guest's, term by term. Measured with QEMU 7.2; docs/performance.md.
import type { VmiSpec } from "@patchbay/api";
import { disksOf } from "../../spec/disks.ts";
import { hasEfi, tpmOf } from "../../spec/guest-devices.ts";
import { vcpusOf } from "../../spec/machine.ts";
import { memoryMiBOf } from "../../spec/memory.ts";

/** libvirt's daemon (29 MiB) and the programs that start and stop it. */
const DAEMONS_MIB = 32;
/** QEMU with a machine of one processor and nothing in it: code, libraries, heap. */
const EMULATOR_MIB = 64;
/** Code that QEMU has translated; its cache is that large at most: `tb-cache` of the domain. */
const TRANSLATED_MIB = 96;
/** A table of 4 KiB for each 2 MiB of the guest's memory. Source: x86-64 paging. */
const GUEST_PER_PAGE_TABLES = 512;
/** Thread, registers and translated code's tables of one processor. */
const VCPU_MIB = 8;
/** Video memory of the display (16 MiB), and what is sent of it by VNC. */
const GRAPHICS_MIB = 32;
/** Code and variables of EFI (4 MiB), and what QEMU keeps of them. */
const EFI_MIB = 16;
/** swtpm. */
const TPM_MIB = 24;
/** Requests of a disk on their way, and what a qcow2 file's tables take (32 MiB at most, of 256 GiB of data). */
const DISK_MIB = 8;
/**
 * What QEMU may take more for each port for a moment, while firmware and kernel set the ports up: it makes its memory
 * maps anew for each change and frees them late. Measured on QEMU 7.2, peak of anonymous memory in 6 starts each: no
 * ports 87 MiB, 32 ports 139, 64 ports 217, 128 ports 329. Afterwards a port takes 0.2 MiB.
 */
const PEAK_MIB_PER_PORT = 2;

/** What memory is computed from, beside the specification. */
export interface MemoryFacts {
  readonly useEmulation: boolean;
  /** PCIe ports of the domain. */
  readonly ports: number;
  /** Whether the guest has a screen: older layouts have none where nothing is said. */
  readonly hasDisplay: boolean;
  /** What its registered bindings take. */
  readonly bindingsMiB: number;
}

function devicesMiB(spec: VmiSpec, { hasDisplay }: MemoryFacts): number {
  return [
    hasDisplay ? GRAPHICS_MIB : 0,
    hasEfi(spec) ? EFI_MIB : 0,
    tpmOf(spec) === undefined ? 0 : TPM_MIB,
    disksOf(spec).length * DISK_MIB,
  ].reduce((sum, mib) => sum + mib, 0);
}

/** What a launcher has beside the guest's memory, MiB; vhost takes none of it: the host's kernel has its rings. */
export function overheadMiBOf(spec: VmiSpec, facts: MemoryFacts): number {
  return (
    DAEMONS_MIB +
    EMULATOR_MIB +
    (facts.useEmulation ? TRANSLATED_MIB : 0) +
    Math.ceil(memoryMiBOf(spec.domain) / GUEST_PER_PAGE_TABLES) +
    vcpusOf(spec.domain) * VCPU_MIB +
    devicesMiB(spec, facts) +
    facts.bindingsMiB
  );
}

/** What it takes beside that for a moment, MiB. */
export function peakMiBOf({ ports }: MemoryFacts): number {
  return ports * PEAK_MIB_PER_PORT;
}
