// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { NetworkConfigList } from "../../interfaces/cni.ts";
import { findAbsentBridges, findCreatedBridges, planBridgeRemoval } from "./created-bridges.ts";

function config(...plugins: NetworkConfigList["plugins"]): NetworkConfigList {
  return { cniVersion: "1.0.0", name: "n", plugins };
}

function link(name: string, index: number, more: { kind?: string; master?: string } = {}) {
  return { name, index, kind: "bridge", ...more };
}

test.each([
  { name: "a bridge with a name", plugin: { type: "bridge", bridge: "br1" }, want: ["br1"] },
  { name: "a bridge with the default name", plugin: { type: "bridge" }, want: ["cni0"] },
  { name: "not an existing bridge", plugin: { type: "bridge", bridge: "br0" }, want: [] },
  { name: "a network without a bridge", plugin: { type: "macvlan", master: "eth0" }, want: [] },
  {
    name: "a bridge of a delegate plugin",
    plugin: { type: "flannel", delegate: { type: "bridge", bridge: "br2" } },
    want: ["br2"],
  },
])("absent before ADD: $name", ({ plugin, want }) => {
  expect(findAbsentBridges([config(plugin), config(plugin)], [link("br0", 2)])).toEqual(want);
});

test.each([
  { name: "a bridge that ADD created", links: [link("br1", 7)], want: [{ name: "br1", index: 7 }] },
  {
    name: "not a link of another kind",
    links: [link("br1", 7, { kind: "openvswitch" })],
    want: [],
  },
  { name: "not a bridge that existed before", links: [link("br0", 2)], want: [] },
  { name: "nothing", links: [], want: [] },
])("created by ADD: $name", ({ links, want }) => {
  expect(findCreatedBridges(["br1"], links)).toEqual(want);
});

test.each([
  { name: "the same link is removed", links: [link("br1", 7)], remove: ["br1"], inUse: [] },
  {
    name: "an administrator's link with the same name is retained",
    links: [link("br1", 9)],
    remove: [],
    inUse: [],
  },
  {
    name: "another link with the same index after a reboot is retained",
    links: [link("br9", 7)],
    remove: [],
    inUse: [],
  },
  {
    name: "a bridge with a port is retained and reported",
    links: [link("br1", 7), link("eth0", 2, { master: "br1" })],
    remove: [],
    inUse: ["br1"],
  },
  { name: "a bridge that no longer exists is forgotten", links: [], remove: [], inUse: [] },
])("removal: $name", ({ links, remove, inUse }) => {
  expect(planBridgeRemoval([{ name: "br1", index: 7 }], links)).toEqual({ remove, inUse });
});
