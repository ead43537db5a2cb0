// SPDX-License-Identifier: Apache-2.0
// What a binding that the cluster has registered is. Source: KubeVirt api/core/v1 types.go InterfaceBindingPlugin.
import {
  isDefaultNetwork,
  bindingsOf,
  ifacePath,
  isAbsent,
  isBinding,
  unbuiltFieldOf,
  names,
  type BindingPlugin,
  type BindingRegistry,
  type Iface,
  type Network,
  type FieldProblem,
  type VmiSpec,
} from "@patchbay/api";
import { findNicModel } from "@patchbay/domain";
import type { Binding, BindingRefusal, BindingModule } from "./binding.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";

/** Where bindings are registered, for people. */
const REGISTRY = "spec.configuration.network.binding of the KubeVirt object";

/** Attachment types that are built; KubeVirt's names of them, but for the last, which is ours. */
const KINDS: Readonly<Record<string, Binding["kind"]>> = {
  tap: "tap",
  managedTap: "managedTap",
  vhostuser: "vhostuser",
};

function refusePlugin(message: string): BindingRefusal {
  return { kind: "refused", field: "binding", reason: "BindingNotSupported", message };
}

/** Where Patchbay is told nothing of what the NIC hangs on, its hook makes it. */
function kindOf({ sidecarImage = "", domainAttachmentType = "" }: BindingPlugin) {
  if (domainAttachmentType === "") return sidecarImage === "" ? undefined : "hook";
  return Object.hasOwn(KINDS, domainAttachmentType) ? KINDS[domainAttachmentType] : undefined;
}

function ofPlugin(name: string, plugin: BindingPlugin): Binding | BindingRefusal {
  const { sidecarImage = "", domainAttachmentType = "", networkAttachmentDefinition = "" } = plugin;
  const kind = kindOf(plugin);
  if (kind === undefined) {
    const has = domainAttachmentType === "" ? "no domainAttachmentType" : domainAttachmentType;
    return refusePlugin(`"${name}" is registered with ${has}; use tap, managedTap or vhostuser`);
  }
  return {
    kind,
    ...(networkAttachmentDefinition === "" ? {} : { extraNetwork: networkAttachmentDefinition }),
    ...(sidecarImage === "" ? {} : { hasHook: true }),
  };
}

/** How an iface is bound that names a registered binding; undefined for one that names none. */
function registeredBindingOf(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal | undefined {
  if (iface.binding === undefined) return undefined;
  const { name } = iface.binding;
  // A name is a person's word: it must not find what every object has.
  const plugin = Object.hasOwn(registry, name) ? registry[name] : undefined;
  if (plugin === undefined) return refusePlugin(`"${name}" is not registered in ${REGISTRY}`);
  const binding = ofPlugin(name, plugin);
  if (binding.kind !== "vhostuser") return binding;
  return vhostUserRefusalOf(iface, network) ?? binding;
}

export const VHOST_USER: BindingModule = {
  kind: "vhostuser",
  wiringOf: () => undefined,
  tapOf: () => "",
  // libvirt has no link state for it, and another network would be another socket.
  live: { plug: true, link: false, network: false },
  takesAnyMac: true,
  takesAddresses: false,
  leaseOf: () => undefined,
  addressesOf: "guest",
};

/** What such a NIC cannot have. */
interface Limit {
  readonly field: string;
  readonly message: string;
  readonly isBroken: (iface: Iface, network: Network | undefined) => boolean;
}

const LIMITS: readonly Limit[] = [
  {
    field: "binding",
    message: "speaks vhost-user, which no NIC of the pod's own network does; use bridge",
    isBroken: (_iface, network) => network !== undefined && isDefaultNetwork(network),
  },
  {
    field: "model",
    message: "does not speak vhost-user; use virtio, or leave it out",
    isBroken: ({ model = "" }) => model !== "" && findNicModel(model)?.isMultiQueue !== true,
  },
  {
    field: "state",
    message: "cannot be down: libvirt has no link state for vhost-user; remove the interface",
    isBroken: ({ state }) => state === "down",
  },
  {
    field: "portSecurity",
    message: "cannot be enforced: frames of vhost-user do not pass through the pod",
    isBroken: ({ portSecurity }) => (portSecurity?.mode ?? "Off") !== "Off",
  },
];

/** Why an iface cannot be bound so; undefined: it can. */
function vhostUserRefusalOf(
  iface: Iface,
  network: Network | undefined,
): BindingRefusal | undefined {
  const limit = LIMITS.find(({ isBroken }) => isBroken(iface, network));
  if (limit === undefined) return undefined;
  const { field, message } = limit;
  return { kind: "refused", field, message, reason: "BindingNotSupported" };
}

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

/** Whether it says so itself, by asking for sockets among its resources, since such NICs may come later. */
function asksForSockets({ domain }: VmiSpec): boolean {
  const { requests, limits } = domain.resources ?? {};
  return [requests, limits].some(
    (amounts) => Number(amounts?.[names.VHOST_USER_RESOURCE] ?? 0) > 0,
  );
}

/**
 * Whether the guest's memory is to be shared with who serves the sockets, and its pod to have a directory of them: it has
 * such a NIC, or asks for sockets.
 */
export function isForVhostUser(spec: VmiSpec, bindings: BindingRegistry): boolean {
  const speaks = ifacesOf(spec).some(
    (iface) => bindingIn(spec, iface, bindings).kind === "vhostuser",
  );
  return speaks || asksForSockets(spec);
}
