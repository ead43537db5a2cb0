// SPDX-License-Identifier: Apache-2.0
// Resolves the bindings of interfaces, and explains why a binding is refused. Source: KubeVirt api/core/v1 types.go
// InterfaceBindingPlugin.
import {
  isDefaultNetwork,
  listBindings,
  isAbsent,
  isBinding,
  names,
  type BindingPlugin,
  type BindingRegistry,
  type Iface,
  type Network,
  type VmiSpec,
} from "@patchbay/api";
import { ifacePath, findUnbuiltField, type FieldProblem } from "@patchbay/api/validate";
import { findNicModel } from "@patchbay/domain";
import type { Binding, BindingRefusal } from "./binding.ts";
import { findByName, ifacesOf, networksOf } from "../nics.ts";

const REGISTRY_FIELD = "spec.configuration.network.binding of the KubeVirt object";

/** Binding kinds by a plugin's `domainAttachmentType`. The type `vhostuser` is an extension of Patchbay. */
const ATTACHMENT_KINDS: Readonly<Record<string, Binding["kind"]>> = {
  tap: "tap",
  managedTap: "managedTap",
  vhostuser: "vhostuser",
};

function refusePlugin(message: string): BindingRefusal {
  return { kind: "refused", field: "binding", reason: "BindingNotSupported", message };
}

function resolveKind({ sidecarImage = "", domainAttachmentType = "" }: BindingPlugin) {
  if (domainAttachmentType === "") return sidecarImage === "" ? undefined : "hook";
  return Object.hasOwn(ATTACHMENT_KINDS, domainAttachmentType)
    ? ATTACHMENT_KINDS[domainAttachmentType]
    : undefined;
}

function resolvePlugin(name: string, plugin: BindingPlugin): Binding | BindingRefusal {
  const { sidecarImage = "", domainAttachmentType = "", networkAttachmentDefinition = "" } = plugin;
  const kind = resolveKind(plugin);
  if (kind === undefined) {
    const attachmentType =
      domainAttachmentType === "" ? "no domainAttachmentType" : domainAttachmentType;
    return refusePlugin(
      `"${name}" is registered with ${attachmentType}; use tap, managedTap or vhostuser`,
    );
  }
  return {
    kind,
    ...(networkAttachmentDefinition === "" ? {} : { extraNetwork: networkAttachmentDefinition }),
    ...(sidecarImage === "" ? {} : { hasHook: true }),
  };
}

function resolveRegisteredBinding(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal | undefined {
  if (iface.binding === undefined) return undefined;
  const { name } = iface.binding;
  // The name is user input and could match an inherited property such as `constructor`.
  const plugin = Object.hasOwn(registry, name) ? registry[name] : undefined;
  if (plugin === undefined) return refusePlugin(`"${name}" is not registered in ${REGISTRY_FIELD}`);
  const binding = resolvePlugin(name, plugin);
  if (binding.kind !== "vhostuser") return binding;
  return refuseVhostUser(iface, network) ?? binding;
}

interface VhostUserRule {
  readonly field: string;
  readonly message: string;
  readonly isViolated: (iface: Iface, network: Network | undefined) => boolean;
}

const VHOST_USER_RULES: readonly VhostUserRule[] = [
  {
    field: "binding",
    message: "speaks vhost-user, which no NIC of the pod's own network does; use bridge",
    isViolated: (_iface, network) => network !== undefined && isDefaultNetwork(network),
  },
  {
    field: "model",
    message: "does not speak vhost-user; use virtio, or leave it out",
    isViolated: ({ model = "" }) => model !== "" && findNicModel(model)?.isMultiQueue !== true,
  },
  {
    field: "state",
    message: "cannot be down: libvirt has no link state for vhost-user; remove the interface",
    isViolated: ({ state }) => state === "down",
  },
  {
    field: "portSecurity",
    message: "cannot be enforced: frames of vhost-user do not pass through the pod",
    isViolated: ({ portSecurity }) => (portSecurity?.mode ?? "Off") !== "Off",
  },
];

function refuseVhostUser(iface: Iface, network: Network | undefined): BindingRefusal | undefined {
  const rule = VHOST_USER_RULES.find(({ isViolated }) => isViolated(iface, network));
  if (rule === undefined) return undefined;
  const { field, message } = rule;
  return { kind: "refused", field, message, reason: "BindingNotSupported" };
}

const FOREIGN_TAP_KINDS: readonly string[] = ["tap", "vhostuser", "hook"];

function refuse(field: string, message: string): BindingRefusal {
  return { kind: "refused", field, reason: "BindingNotSupported", message };
}

/** Checks whether the binding supports a NIC of a resource claim. Returns true for a refused binding, which has its own error. */
function canBindClaim(binding: Binding | BindingRefusal): boolean {
  if (binding.kind === "refused") return true;
  return binding.kind !== "vhostuser" && binding.extraNetwork === undefined;
}

function resolveSupportedBinding(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal {
  const [first, second] = listBindings(iface);
  if (first !== undefined && second !== undefined) {
    return refuse(second, `cannot be combined with ${first}: an interface has one binding`);
  }
  if (first === "masquerade") {
    return network !== undefined && !isDefaultNetwork(network)
      ? refuse(first, "is for the default network of the pod only; use bridge")
      : { kind: "masquerade" };
  }
  const registered = resolveRegisteredBinding(iface, network, registry) ?? { kind: "bridge" };
  if (network?.resourceClaim !== undefined && !canBindClaim(registered))
    return refuse("binding", "does not support devices of resource claims; use bridge");
  if (registered.kind === "hook" && iface.state === "down")
    return refuse("state", "cannot be down: the NIC is its hook's, and its link too");
  return iface.bandwidth !== undefined && FOREIGN_TAP_KINDS.includes(registered.kind)
    ? refuse(
        "bandwidth",
        "cannot be enforced: Patchbay does not create the tap of this binding; limit the traffic by the network's plugin, or use bridge or masquerade",
      )
    : registered;
}

/** Returns the binding or a refusal. A refused interface gets no annotation element, link or device, and its VM does not start. */
export function resolveBinding(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal {
  const unsupported = findUnbuiltField(iface);
  if (unsupported === undefined) return resolveSupportedBinding(iface, network, registry);
  const reason = isBinding(unsupported.field) ? "BindingNotSupported" : "FieldNotSupported";
  return { kind: "refused", ...unsupported, reason };
}

export function resolveBindingIn(
  spec: VmiSpec,
  iface: Iface,
  registry: BindingRegistry,
): Binding | BindingRefusal {
  return resolveBinding(iface, findByName(networksOf(spec), iface.name), registry);
}

export function canBind(spec: VmiSpec, iface: Iface, registry: BindingRegistry): boolean {
  return resolveBindingIn(spec, iface, registry).kind !== "refused";
}

/** Finds refused bindings. Ignores absent interfaces, and interfaces with unsupported fields, which another rule reports. */
export function findBindingProblems(
  spec: VmiSpec,
  base: string,
  registry: BindingRegistry,
): readonly FieldProblem[] {
  return ifacesOf(spec).flatMap((iface, index): readonly FieldProblem[] => {
    if (isAbsent(iface) || findUnbuiltField(iface) !== undefined) return [];
    const binding = resolveBindingIn(spec, iface, registry);
    if (binding.kind !== "refused") return [];
    return [{ field: `${ifacePath(base, index)}.${binding.field}`, message: binding.message }];
  });
}

/** Checks whether the VM requests the resource for vhost-user sockets, so that vhost-user NICs can be plugged later. */
function requestsSockets({ domain }: VmiSpec): boolean {
  const { requests, limits } = domain.resources ?? {};
  return [requests, limits].some(
    (amounts) => Number(amounts?.[names.VHOST_USER_RESOURCE] ?? 0) > 0,
  );
}

/** Checks whether the VM has, or can get, vhost-user NICs. They need shared memory in the guest and a socket directory in the pod. */
export function isForVhostUser(spec: VmiSpec, bindings: BindingRegistry): boolean {
  const hasVhostUserNic = ifacesOf(spec).some(
    (iface) => resolveBindingIn(spec, iface, bindings).kind === "vhostuser",
  );
  return hasVhostUserNic || requestsSockets(spec);
}
