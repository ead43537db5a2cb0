// SPDX-License-Identifier: Apache-2.0
// Rows for table tests of a guest's validation.
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { validateVmiSpec } from "../validate/spec.ts";

/** Specification that a client sends, and the expected causes in order. */
export interface GuestRow {
  readonly name: string;
  readonly spec: object;
  readonly want: readonly (readonly [reason: string, field: string, message: string])[];
}

export function withDisk(disk: object, volume: object = { containerDisk: { image: "a" } }): object {
  return {
    domain: { devices: { disks: [{ name: "root", ...disk }] } },
    volumes: [{ name: "root", ...volume }],
  };
}

export function withDomain(domain: object): object {
  return { domain };
}

export function causesOfGuest(spec: object): GuestRow["want"] {
  // Rows hold what clients may send, which is wider than the types.
  return validateVmiSpec(spec as VmiSpec, "spec").map(({ reason, field, message }) => [
    reason,
    field,
    message,
  ]);
}

export function invalid(field: string, message: string): GuestRow["want"][number] {
  return ["FieldValueInvalid", field, message];
}
