// SPDX-License-Identifier: Apache-2.0
// Rows for table tests of the validation of interfaces and networks.
import type { Iface, Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { validateVmiSpec } from "../validate/spec.ts";

/** Interfaces and networks that a client sends, and the expected causes in order. */
export interface RuleRow {
  readonly name: string;
  readonly interfaces: readonly object[];
  readonly networks: readonly object[];
  readonly want: readonly (readonly [reason: string, field: string, message: string])[];
}

export const POD: Network = { name: "default", pod: {} };
export const BRIDGE: Iface = { name: "default", bridge: {} };
/** Path of the interface in the specification that {@link causesOf} validates. */
export const IFACE = "fake.domain.devices.interfaces";

export function multus(name: string, networkName = "net"): Network {
  return { name, multus: { networkName } };
}

export function withDefault(fields: object): Pick<RuleRow, "interfaces" | "networks"> {
  return { interfaces: [{ ...BRIDGE, ...fields }], networks: [POD] };
}

export function specOf({
  interfaces,
  networks,
}: Pick<RuleRow, "interfaces" | "networks">): VmiSpec {
  return {
    // Rows hold what clients may send, which is wider than the types.
    domain: { devices: { interfaces: interfaces as Iface[] } },
    networks: networks as Network[],
  };
}

export function causesOf(row: Pick<RuleRow, "interfaces" | "networks">): RuleRow["want"] {
  return validateVmiSpec(specOf(row), "fake").map(({ reason, field, message }) => [
    reason,
    field,
    message,
  ]);
}
