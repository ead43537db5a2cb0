// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { listDefinitionChanges } from "./changes.ts";

const PLUGIN = { type: "bridge", bridge: "br7", ipam: { type: "host-local" } };

function configOf(...plugins: readonly ({ readonly type: string } & Record<string, unknown>)[]) {
  return { cniVersion: "1.0.0", name: "blue", plugins };
}

test.each([
  { name: "the same definition", now: configOf({ ...PLUGIN }), want: [] },
  {
    name: "another bridge",
    now: configOf({ ...PLUGIN, bridge: "br8" }),
    want: ["plugins[0].bridge"],
  },
  {
    name: "a new member and a nested one",
    now: configOf({ ...PLUGIN, mtu: 1400, ipam: { type: "static" } }),
    want: ["plugins[0].ipam.type", "plugins[0].mtu"],
  },
  {
    name: "a deleted member",
    now: configOf({ type: "bridge", bridge: "br7" }),
    want: ["plugins[0].ipam"],
  },
  {
    name: "another plugin in the list",
    now: configOf(PLUGIN, { type: "tuning" }),
    want: ["plugins"],
  },
  {
    name: "arguments and devices of the request",
    now: configOf({ ...PLUGIN, args: { cni: {} }, deviceID: "0000:01:00.0" }),
    want: [],
  },
])("$name: $want", ({ now, want }) => {
  expect(listDefinitionChanges(configOf(PLUGIN), now)).toEqual(want);
});
