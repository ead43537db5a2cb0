// SPDX-License-Identifier: Apache-2.0
// How an iface may be bound to its network, and which of these ways Patchbay builds.
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

/** The ways that lead to a NIC; anything else would give the guest another network than the one it asked for. */
const BUILT: ReadonlySet<Binding> = new Set<Binding>(["bridge"]);

/** The ways that an iface names, in the order of the API; none means bridge on a secondary network. */
export function bindingsOf(iface: Iface): readonly Binding[] {
  // Some are not in the schema and are kept as unknown fields.
  const fields = iface as Readonly<Record<string, unknown>>;
  return BINDINGS.filter((binding) => (fields[binding] ?? undefined) !== undefined);
}

/** Why an iface gets no NIC. */
export interface UnbuiltBinding {
  /** The field below the iface. */
  readonly field: Binding;
  readonly message: string;
}

/**
 * The one guard of every door: an iface for which this says something gets no annotation element, no link and no device,
 * and a VM with it is not started.
 */
export function unbuiltBindingOf(iface: Iface): UnbuiltBinding | undefined {
  const bindings = bindingsOf(iface);
  const field = bindings.find((binding, index) => index > 0 || !BUILT.has(binding));
  if (field === undefined) return undefined;
  const message =
    bindings.length > 1
      ? `an interface has one binding, not ${bindings.join(" and ")}; use bridge`
      : `binding ${field} is not built yet; use bridge`;
  return { field, message };
}
