// SPDX-License-Identifier: Apache-2.0
// How an iface is bound, or why it cannot be: the one guard of every door to a running guest.
import {
  bindingsOf,
  ifacePath,
  isAbsent,
  isBinding,
  unbuiltFieldOf,
  type BindingRegistry,
  type FieldProblem,
  type Iface,
  type Network,
  type VmiSpec,
} from "@patchbay/api";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";
import type { Binding, BindingRefusal } from "./binding.ts";
import { registeredBindingOf } from "./registered.ts";

function refuse(field: string, message: string): BindingRefusal {
  return { kind: "refused", field, reason: "BindingNotSupported", message };
}

/** What is wrong with the binding of an iface of which every field is built. */
function builtBindingOf(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal {
  const [first, second] = bindingsOf(iface);
  if (first !== undefined && second !== undefined) {
    return refuse(second, `cannot be combined with ${first}: an interface has one binding`);
  }
  if (first === "masquerade") {
    return network !== undefined && network.pod === undefined
      ? refuse(first, "is for the pod network only; use bridge")
      : { kind: "masquerade" };
  }
  const registered = registeredBindingOf(iface, network, registry) ?? { kind: "bridge" };
  return registered.kind === "hook" && iface.state === "down"
    ? refuse("state", "cannot be down: the NIC is its hook's, and its link too")
    : registered;
}

/**
 * How the iface is bound. With a refusal it gets no annotation element, no link and no device, and a VM with it is not
 * started. `network` is the one of the iface's name, `registry` what the cluster has registered.
 */
export function bindingOf(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal {
  const unbuilt = unbuiltFieldOf(iface);
  if (unbuilt === undefined) return builtBindingOf(iface, network, registry);
  const reason = isBinding(unbuilt.field) ? "BindingNotSupported" : "FieldNotSupported";
  return { kind: "refused", ...unbuilt, reason };
}

/** How an iface of a specification is bound. */
export function bindingIn(
  spec: VmiSpec,
  iface: Iface,
  registry: BindingRegistry,
): Binding | BindingRefusal {
  return bindingOf(iface, findByName(networksOf(spec), iface.name), registry);
}

/** Whether an iface of a specification can become a NIC. */
export function canBind(spec: VmiSpec, iface: Iface, registry: BindingRegistry): boolean {
  return bindingIn(spec, iface, registry).kind !== "refused";
}

/**
 * What is wrong with the bindings of a specification at `base`, beside fields that are not built. An iface that is
 * leaving asks for nothing.
 */
export function bindingProblems(
  spec: VmiSpec,
  base: string,
  registry: BindingRegistry,
): readonly FieldProblem[] {
  return ifacesOf(spec).flatMap((iface, index): readonly FieldProblem[] => {
    if (isAbsent(iface) || unbuiltFieldOf(iface) !== undefined) return [];
    const binding = bindingIn(spec, iface, registry);
    if (binding.kind !== "refused") return [];
    return [{ field: `${ifacePath(base, index)}.${binding.field}`, message: binding.message }];
  });
}
