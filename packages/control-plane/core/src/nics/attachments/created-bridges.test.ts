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
  { name: "a bridge by its name", plugin: { type: "bridge", bridge: "br1" }, want: ["br1"] },
  { name: "a bridge without a name", plugin: { type: "bridge" }, want: ["cni0"] },
  { name: "a bridge that exists", plugin: { type: "bridge", bridge: "br0" }, want: [] },
  { name: "a network without a bridge", plugin: { type: "macvlan", master: "eth0" }, want: [] },
  {
    name: "a bridge of a plugin that calls another",
    plugin: { type: "flannel", delegate: { type: "bridge", bridge: "br2" } },
    want: ["br2"],
  },
])("absent before ADD: $name", ({ plugin, want }) => {
  expect(findAbsentBridges([config(plugin), config(plugin)], [link("br0", 2)])).toEqual(want);
});

test.each([
  { name: "a bridge that ADD created", links: [link("br1", 7)], want: [{ name: "br1", index: 7 }] },
  { name: "a link of another kind", links: [link("br1", 7, { kind: "openvswitch" })], want: [] },
  { name: "a bridge that existed before", links: [link("br0", 2)], want: [] },
  { name: "nothing", links: [], want: [] },
])("created by ADD: $name", ({ links, want }) => {
  expect(findCreatedBridges(["br1"], links)).toEqual(want);
});

test.each([
  { name: "the same link is removed", links: [link("br1", 7)], remove: ["br1"], inUse: [] },
  {
    name: "an administrator's link of the same name stays",
    links: [link("br1", 9)],
    remove: [],
    inUse: [],
  },
  {
    name: "another link that has the index in another boot stays",
    links: [link("br9", 7)],
    remove: [],
    inUse: [],
  },
  {
    name: "a bridge with a port stays and is reported",
    links: [link("br1", 7), link("eth0", 2, { master: "br1" })],
    remove: [],
    inUse: ["br1"],
  },
  { name: "a bridge that no longer exists", links: [], remove: [], inUse: [] },
])("removal: $name", ({ links, remove, inUse }) => {
  expect(planBridgeRemoval([{ name: "br1", index: 7 }], links)).toEqual({ remove, inUse });
});
