// SPDX-License-Identifier: Apache-2.0
import type { BindingPlugin, Iface, Network } from "@patchbay/api";
import { expect, test } from "vitest";
import { resolveBinding } from "./resolve-binding.ts";

const REGISTRY = { fast: { domainAttachmentType: "vhostuser" } };
const BLUE: Network = { name: "one", multus: { networkName: "blue" } };
const FAST: Iface = { name: "one", binding: { name: "fast" } };

test.each<{ name: string; iface?: Partial<Iface>; network?: Network; field: string | undefined }>([
  { name: "an interface on a secondary network", field: undefined },
  { name: "the model virtio", iface: { model: "virtio" }, field: undefined },
  { name: "an unset model", iface: { model: "" }, field: undefined },
  { name: "a link state up", iface: { state: "up" }, field: undefined },
  {
    name: "a guest without port security",
    iface: { portSecurity: { mode: "Off" } },
    field: undefined,
  },
  { name: "the pod network", network: { name: "one", pod: {} }, field: "binding" },
  { name: "another model", iface: { model: "e1000" }, field: "model" },
  { name: "a link state down", iface: { state: "down" }, field: "state" },
  {
    name: "a guest with port security",
    iface: { portSecurity: { mode: "MAC" } },
    field: "portSecurity",
  },
])("$name: vhost-user is blocked by $field", ({ iface, network = BLUE, field }) => {
  const binding = resolveBinding({ ...FAST, ...iface }, network, REGISTRY);
  const refused = { kind: "refused", reason: "BindingNotSupported", field };
  expect(binding).toMatchObject(field === undefined ? { kind: "vhostuser" } : refused);
});

test.each<{ kind: string; plugin?: BindingPlugin; isRefused: boolean }>([
  { kind: "bridge", isRefused: false },
  { kind: "managedTap", plugin: { domainAttachmentType: "managedTap" }, isRefused: false },
  { kind: "tap", plugin: { domainAttachmentType: "tap" }, isRefused: true },
  { kind: "vhostuser", plugin: { domainAttachmentType: "vhostuser" }, isRefused: true },
  { kind: "hook", plugin: { sidecarImage: "image" }, isRefused: true },
])("a limited interface with binding $kind is refused: $isRefused", (row) => {
  const binding = row.plugin === undefined ? { bridge: {} } : { binding: { name: "own" } };
  const registry = row.plugin === undefined ? {} : { own: row.plugin };
  const iface = { name: "one", ...binding };
  const limited = { ...iface, bandwidth: { inbound: { average: "1M" } } };
  expect(resolveBinding(iface, BLUE, registry)).toMatchObject({ kind: row.kind });
  expect(resolveBinding(limited, BLUE, registry)).toMatchObject(
    row.isRefused ? { kind: "refused", field: "bandwidth" } : { kind: row.kind },
  );
});

test.each<{ kind: string; plugin: BindingPlugin }>([
  { kind: "managedTap", plugin: { domainAttachmentType: "managedTap" } },
  { kind: "tap", plugin: { domainAttachmentType: "tap" } },
  { kind: "hook", plugin: { sidecarImage: "image" } },
  { kind: "refused", plugin: { domainAttachmentType: "vhostuser" } },
  {
    kind: "refused",
    plugin: { domainAttachmentType: "managedTap", networkAttachmentDefinition: "extra" },
  },
])("for a device of a resource claim, $plugin resolves to $kind", ({ kind, plugin }) => {
  const network = { name: "one", resourceClaim: { claimName: "nics", requestName: "nic" } };
  const iface = { name: "one", binding: { name: "own" } };
  expect(resolveBinding(iface, network, { own: plugin })).toMatchObject({ kind });
});
