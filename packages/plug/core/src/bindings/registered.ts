// SPDX-License-Identifier: Apache-2.0
// What a binding that the cluster has registered is. Source: KubeVirt api/core/v1 types.go InterfaceBindingPlugin.
import type { BindingPlugin, BindingRegistry, Iface, Network } from "@patchbay/api";
import type { Binding, BindingRefusal } from "./binding.ts";
import { vhostUserRefusalOf } from "./vhost-user.ts";

/** Where bindings are registered, for people. */
const REGISTRY = "spec.configuration.network.binding of the KubeVirt object";

/** Attachment types that are built; KubeVirt's names of them, but for the last, which is ours. */
const KINDS: Readonly<Record<string, Binding["kind"]>> = {
  tap: "tap",
  managedTap: "managedTap",
  vhostuser: "vhostuser",
};

function refuse(message: string): BindingRefusal {
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
    return refuse(`"${name}" is registered with ${has}; use tap, managedTap or vhostuser`);
  }
  return {
    kind,
    ...(networkAttachmentDefinition === "" ? {} : { extraNetwork: networkAttachmentDefinition }),
    ...(sidecarImage === "" ? {} : { hasHook: true }),
  };
}

/** How an iface is bound that names a registered binding; undefined for one that names none. */
export function registeredBindingOf(
  iface: Iface,
  network: Network | undefined,
  registry: BindingRegistry,
): Binding | BindingRefusal | undefined {
  if (iface.binding === undefined) return undefined;
  const { name } = iface.binding;
  // A name is a person's word: it must not find what every object has.
  const plugin = Object.hasOwn(registry, name) ? registry[name] : undefined;
  if (plugin === undefined) return refuse(`"${name}" is not registered in ${REGISTRY}`);
  const binding = ofPlugin(name, plugin);
  if (binding.kind !== "vhostuser") return binding;
  return vhostUserRefusalOf(iface, network) ?? binding;
}
