// SPDX-License-Identifier: Apache-2.0
// A machine with nothing but what every one has.
import type { DomainDefinition } from "../definition.ts";

/** What a definition may say beside name, size, NICs and console, said as plainly as can be. */
export const PLAIN_MACHINE = {
  cpu: { features: [] },
  firmware: { kind: "bios", usesSerial: false },
  identity: {},
  features: { acpi: true, apic: true },
  clock: { offset: { kind: "utc" }, timers: [] },
  ioThreads: 0,
  bridges: [],
  controllers: [],
  disks: [],
  inputs: [],
} as const satisfies Partial<DomainDefinition>;
