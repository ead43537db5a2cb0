// SPDX-License-Identifier: Apache-2.0
// How an iface may be bound to its network; which of the ways are built, the schema of the iface says.
import type { Iface } from "./network.ts";

/** Every way that the API has or has had. Source: KubeVirt api/core/v1 schema.go, InterfaceBindingMethod and PluginBinding. */
const BINDINGS = [
  "bridge",
  "masquerade",
  "sriov",
  "passtBinding",
  "binding",
  "slirp",
  "passt",
  "macvtap",
] as const;

/** One way; the name of its field in the iface. */
export type Binding = (typeof BINDINGS)[number];

/** Whether a field of an iface is a way to bind it. */
export function isBinding(field: string): boolean {
  return BINDINGS.some((binding) => binding === field);
}

/** The ways that an iface names, in the order of the API; none means bridge on a secondary network. */
export function bindingsOf(iface: Iface): readonly Binding[] {
  return BINDINGS.filter((binding) => (iface[binding] ?? undefined) !== undefined);
}
