// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { vhostUserOf } from "./device-info.ts";

const INFO = { mode: "client", path: "/run/s" };

test.each<{ name: string; told: unknown; want: ReturnType<typeof vhostUserOf> }>([
  {
    name: "a socket",
    told: { type: "vhost-user", version: "1.1.0", "vhost-user": INFO },
    want: INFO,
  },
  { name: "half a word", told: { type: "vhost-user" }, want: { mode: "", path: "" } },
  {
    name: "no words",
    told: { type: "vhost-user", "vhost-user": { mode: 1, path: ["/"] } },
    want: { mode: "", path: "" },
  },
  { name: "another device", told: { type: "pci", "vhost-user": INFO }, want: undefined },
  { name: "nothing", told: undefined, want: undefined },
  { name: "a text", told: "vhost-user", want: undefined },
])("the device information tells of $name", ({ told, want }) => {
  expect(vhostUserOf(told)).toEqual(want);
});
