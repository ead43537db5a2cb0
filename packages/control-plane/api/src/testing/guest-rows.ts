// SPDX-License-Identifier: Apache-2.0
// Rows of what admission says of a guest, and how a row is asked.
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { validateVmiSpec } from "../validate/spec.ts";

/** What a client sends, and the causes that it is answered, in order. */
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
  // Rows hold what a client may send, which is wider than the types.
  return validateVmiSpec(spec as VmiSpec, "spec").map(({ reason, field, message }) => [
    reason,
    field,
    message,
  ]);
}

/** One cause with the usual reason. */
export function invalid(field: string, message: string): GuestRow["want"][number] {
  return ["FieldValueInvalid", field, message];
}
