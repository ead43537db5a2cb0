// SPDX-License-Identifier: Apache-2.0
import type { DomainDefinition } from "../definition.ts";

/** Minimal values for the fields of a definition other than name, size, NICs and console. */
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
