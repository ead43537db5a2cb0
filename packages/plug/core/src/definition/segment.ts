// SPDX-License-Identifier: Apache-2.0
// The link of the node that carries a network's frames, so that networks which share it are known.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import { BRIDGE_PLUGINS, DEFAULT_BRIDGE } from "./needs.ts";

/** By plugin: the kind of its link, and the member that names it. Sources: plugins macvlan; ovs-cni. */
const LINKS: Readonly<Record<string, { readonly kind: string; readonly member: string }>> = {
  macvlan: { kind: "link", member: "master" },
  ovs: { kind: "ovs", member: "bridge" },
  ...Object.fromEntries(
    BRIDGE_PLUGINS.map((type) => [type, { kind: "bridge", member: "bridge" }] as const),
  ),
};

function firstPlugin(config: JsonObject): JsonObject {
  const { plugins } = config;
  const list: readonly unknown[] = Array.isArray(plugins) ? plugins : [config];
  return isJsonObject(list[0]) ? list[0] : {};
}

/**
 * Kind, name and VLAN of the link that a CNI configuration connects NICs to, for example `bridge br1 100`; undefined
 * where the plugin is not known to share a link.
 */
export function sharedLinkOf(config: string | undefined): string | undefined {
  const parsed = parseJson(config);
  if (!isJsonObject(parsed)) return undefined;
  const plugin = firstPlugin(parsed);
  const type = typeof plugin["type"] === "string" ? plugin["type"] : "";
  const link = Object.hasOwn(LINKS, type) ? LINKS[type] : undefined;
  if (link === undefined) return undefined;
  const named = plugin[link.member];
  const fallback = link.kind === "bridge" ? DEFAULT_BRIDGE : "";
  const name = typeof named === "string" && named !== "" ? named : fallback;
  const vlan = typeof plugin["vlan"] === "number" ? plugin["vlan"] : 0;
  return name === "" ? undefined : `${link.kind} ${name} ${String(vlan)}`;
}
